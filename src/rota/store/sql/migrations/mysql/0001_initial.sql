-- MySQL ends a transaction at each of these statements, so each can be repeated after a crash between two of them.
-- Keys are bytes: every text collation that MySQL and MariaDB share takes "a" and "a " for the same.

-- One row: the newest revision, and how far history has been compacted away.
CREATE TABLE IF NOT EXISTS rota_counter (
    id INTEGER PRIMARY KEY,
    revision BIGINT NOT NULL,
    compacted BIGINT NOT NULL
) ENGINE=InnoDB;

INSERT IGNORE INTO rota_counter (id, revision, compacted) VALUES (1, 0, 0);

-- Every change, in order. A row without a value is a deletion.
CREATE TABLE IF NOT EXISTS rota_log (
    revision BIGINT NOT NULL,
    `key` VARBINARY(512) NOT NULL,
    value LONGBLOB,
    created BIGINT NOT NULL,
    lease VARBINARY(64),
    PRIMARY KEY (revision, `key`),
    INDEX rota_log_by_key (`key`, revision)
) ENGINE=InnoDB;

-- The keys that exist now. Their values stand here a second time: looking each one up in the log, where neighbours by
-- key are strangers by revision, made a scan several times slower once the log was larger than the cache.
CREATE TABLE IF NOT EXISTS rota_live (
    `key` VARBINARY(512) PRIMARY KEY,
    value LONGBLOB NOT NULL,
    created BIGINT NOT NULL,
    modified BIGINT NOT NULL,
    lease VARBINARY(64),
    INDEX rota_live_by_lease (lease)
) ENGINE=InnoDB;

-- A lease: when the database's clock says it is over, and how often it was renewed.
CREATE TABLE IF NOT EXISTS rota_lease (
    id VARBINARY(64) PRIMARY KEY,
    ttl_ms BIGINT NOT NULL,
    renewals BIGINT NOT NULL,
    expires_ms BIGINT NOT NULL
) ENGINE=InnoDB;
