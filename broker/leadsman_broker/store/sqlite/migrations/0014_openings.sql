-- Since when a queue (scope 0), or a class of one of its tenants (scope 1), could be leased again after a pause or a
-- budget: the age of what had waited counts from then, also after a restart.

CREATE TABLE openings (
    namespace TEXT NOT NULL,
    capability TEXT NOT NULL,
    scope INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    interactive INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (namespace, capability, scope, tenant, interactive)
) WITHOUT ROWID;
