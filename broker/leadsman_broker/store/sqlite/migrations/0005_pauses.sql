-- Capabilities of which nothing is leased until someone resumes them.

CREATE TABLE pauses (
    namespace TEXT NOT NULL,
    capability TEXT NOT NULL,
    at REAL NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (namespace, capability)
) WITHOUT ROWID;
