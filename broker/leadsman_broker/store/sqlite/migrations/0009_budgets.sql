-- What budgets set aside for attempts, and what the ended ones of a window were charged: of a queue (scope 0) or of
-- one of its tenants (scope 1).

ALTER TABLE ledger ADD COLUMN reported INTEGER NOT NULL DEFAULT 1;
ALTER TABLE ledger ADD COLUMN reserved_tokens INTEGER;
ALTER TABLE ledger ADD COLUMN reserved_cost INTEGER;
ALTER TABLE totals ADD COLUMN over_budget INTEGER NOT NULL DEFAULT 0;

CREATE TABLE budgets (
    namespace TEXT NOT NULL,
    capability TEXT NOT NULL,
    scope INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    starts_at REAL NOT NULL,
    tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,
    PRIMARY KEY (namespace, capability, scope, tenant)
) WITHOUT ROWID;
