-- One row: the newest revision, and how far history has been compacted away.
CREATE TABLE rota_counter (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    revision BIGINT NOT NULL,
    compacted BIGINT NOT NULL
);

INSERT INTO rota_counter (id, revision, compacted) VALUES (1, 0, 0);

-- Every change, in order. A row without a value is a deletion.
CREATE TABLE rota_log (
    revision BIGINT NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value BYTEA,
    created BIGINT NOT NULL,
    lease TEXT,
    PRIMARY KEY (revision, key)
);

CREATE INDEX rota_log_by_key ON rota_log (key, revision);

-- The keys that exist now. Their values stand here a second time: looking each one up in the log, where neighbours by
-- key are strangers by revision, made a scan several times slower once the log was larger than the cache.
CREATE TABLE rota_live (
    key TEXT COLLATE "C" PRIMARY KEY,
    value BYTEA NOT NULL,
    created BIGINT NOT NULL,
    modified BIGINT NOT NULL,
    lease TEXT
);

CREATE INDEX rota_live_by_lease ON rota_live (lease) WHERE lease IS NOT NULL;

-- A lease: when the database's clock says it is over, and how often it was renewed.
CREATE TABLE rota_lease (
    id TEXT PRIMARY KEY,
    ttl_ms BIGINT NOT NULL,
    renewals BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
);
