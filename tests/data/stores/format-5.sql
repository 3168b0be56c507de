-- A database of format 5 with one record in each table, as released code wrote it.
CREATE TABLE bookmarks (reader TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "bookmarks" VALUES('slack',1);
CREATE TABLE commands (id TEXT PRIMARY KEY, body BLOB NOT NULL);
INSERT INTO "commands" VALUES('c1',CAST('{"id":"c1","node":"training-0","kind":"drain","issued_at":"2026-01-01T12:00:00Z","expires_at":"2026-01-01T13:00:00Z","parameters":{"timeout":"5"},"status":"pending","ended_at":null,"result":""}' AS BLOB));
CREATE TABLE events (
        number INTEGER PRIMARY KEY AUTOINCREMENT, revision INTEGER NOT NULL, at REAL NOT NULL,
        about TEXT NOT NULL, body BLOB NOT NULL
    );
INSERT INTO "events" VALUES(1,1,1767268800.0,'node/training-0',CAST('{"at":"2026-01-01T12:00:00Z","about":"node/training-0","kind":"node.requested","reason":"because","because":[],"facts":{}}' AS BLOB));
CREATE TABLE incidents (id TEXT PRIMARY KEY, body BLOB NOT NULL);
INSERT INTO "incidents" VALUES('inc-1',CAST('{"id":"inc-1","kind":"hardware","node":"training-0","opened_at":"2026-01-01T12:00:00Z","last_at":"2026-01-01T12:00:00Z","title":"XID 48","check":"xid/48/GPU-0","code":"48","action":"","state":"open","nodes":["training-0"],"pool":"training","domain":"","gpus":[],"slots":[],"host":"","boot_id":"","pid":"","process":"","symptoms":[{"check":"xid/48/GPU-0","reason":"XID 48","node":"training-0","first_at":"2026-01-01T12:00:00Z","last_at":"2026-01-01T12:00:00Z","code":"","gpu":"","action":"","rule":"","count":1}],"closed_at":null,"note":"","provider":"","instance_type":"","recovery":""}' AS BLOB));
CREATE TABLE inventories (node TEXT PRIMARY KEY, body BLOB NOT NULL);
INSERT INTO "inventories" VALUES('training-0',CAST('{"gpus":[{"index":0,"uuid":"GPU-1","name":"","pci_bus_id":"","memory_bytes":0,"driver_version":"","cuda_version":""}],"hostname":"h","internal_ip":"","external_ip":"","kernel_version":"","image":"","agent_version":"","labels":{}}' AS BLOB));
CREATE TABLE jobs (name TEXT PRIMARY KEY, body BLOB NOT NULL);
INSERT INTO "jobs" VALUES('train',CAST('{"name":"train","submitted_at":"2026-01-01T12:00:00Z","since":"2026-01-01T12:00:00Z","state":"waiting","queue":"research","tasks":2,"gpus":8,"pool":"training","gpu_type":"","priority":50,"preemptible":false,"runtime":null,"checkpointed_at":null,"nodes":[],"reason":"","interruptions":0}' AS BLOB));
CREATE TABLE launches (
        token TEXT NOT NULL, instance TEXT NOT NULL, pool TEXT NOT NULL, asked_at TEXT NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY (token, instance)
    );
INSERT INTO "launches" VALUES('launch-training-0','i-training-0','training','2026-01-01T11:00:00+00:00',CAST('{"token":"launch-training-0","node":"training-0","pool":"training","offering":{"provider":"sim","instance_type":"h100-8x","region":"region-1","zone":"","spot":false,"gpus":8,"gpu_type":"h100","price_per_hour":"98.32","reservation":"","reserved_nodes":null},"asked_at":"2026-01-01T11:00:00Z","team":"","told":null,"gang":null,"refused":null,"refusal":null,"refused_at":null,"instance":"i-training-0","public_address":"","private_address":"","price_per_hour":"98.32","launched_at":"2026-01-01T11:00:00Z","ended_at":null}' AS BLOB));
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('cluster','cluster-7a657a6e75f5');
INSERT INTO "meta" VALUES('journal_start','0');
INSERT INTO "meta" VALUES('revision','1');
INSERT INTO "meta" VALUES('secret','7c7e530b26b02aae0610f61d6e11ec6ebbfc4fdb366460610c03ed4a846e6ce6');
INSERT INTO "meta" VALUES('term','1');
CREATE TABLE nodes (id TEXT PRIMARY KEY, body BLOB NOT NULL);
INSERT INTO "nodes" VALUES('training-0',CAST('{"id":"training-0","pool":"training","phase":"ready","since":"2026-01-01T11:00:00Z","created_at":"2026-01-01T11:00:00Z","cordoned":null,"health":"unknown","conditions":[],"retiring":null,"replaces":null,"launch":{"token":"launch-training-0","node":"training-0","pool":"training","offering":{"provider":"sim","instance_type":"h100-8x","region":"region-1","zone":"","spot":false,"gpus":8,"gpu_type":"h100","price_per_hour":"98.32","reservation":"","reserved_nodes":null},"asked_at":"2026-01-01T11:00:00Z","team":"","told":null,"gang":null,"refused":null,"refusal":null,"refused_at":null,"instance":"i-training-0","public_address":"","private_address":"","price_per_hour":"98.32","launched_at":"2026-01-01T11:00:00Z","ended_at":null},"attempts":0,"retry_at":null,"registered_at":"2026-01-01T11:00:00Z","boot_id":"","machine":"","booted_at":null,"offering":null,"gpus":null,"labels":{},"topology":null,"gang":null,"waiting":false,"told":"open","report_stream":"","report_number":0,"traits":{"driver":{"value":"570","since":"2026-01-01T12:00:00Z","before":"550","past":{"value":"550","since":"2026-01-01T12:00:00Z","before":"","past":null}}},"vouched_boot":"","recovery":null,"acted_at":null,"held":{"action":"replace","reason":"unhealthy","because":"the driver","by":"change","since":"2026-01-01T12:00:00Z","faults":["xid 119"],"released":""}}' AS BLOB));
CREATE TABLE pools (name TEXT PRIMARY KEY, body BLOB NOT NULL);
INSERT INTO "pools" VALUES('training',CAST('{"name":"training","offerings":[{"provider":"sim","instance_type":"h100-8x","region":"region-1","zone":"","spot":false,"gpus":8,"gpu_type":"h100","price_per_hour":"98.32","reservation":"","reserved_nodes":null}],"nodes_min":2,"nodes_max":3,"nodes_wanted":null,"next_index":0,"labels":{},"ssh_keys":[],"user_data":"","auto_replace":true,"unhealthy_after":2,"silent_after":"PT600S","boot_deadline":"PT600S","drain_timeout":"PT300S","autoscaling":null,"cooldown":"PT300S","shrink_after":"PT300S","scaled_at":null,"spares":0,"disruption":{"budgets":[],"lifetime_max":null,"replace_drifted":false,"savings_min":null,"empty_after":null},"gang":0,"gang_hold":"PT600S","remediation":{"strategy":"","dry_run":false,"steps":[],"reboot_deadline":"PT900S"},"held":null,"unreachable":false,"reachable_since":null,"braked":null,"brake_released_at":null,"deleted":false}' AS BLOB));
CREATE TABLE recoveries (id TEXT PRIMARY KEY, body BLOB NOT NULL);
INSERT INTO "recoveries" VALUES('training-0-e44fffc18b',CAST('{"id":"training-0-e44fffc18b","node":"training-0","check":"xid/95/GPU-0","cause":"unhealthy: XID 95","boot_id":"boot-1","gpus":["GPU-0"],"pids":[],"step":"reset_gpu","state":"ordered","since":"2026-01-01T12:00:00Z","begun_at":"2026-01-01T12:00:00Z","deadline":null,"command":null,"ordered_boot":"","tries":{},"history":[{"step":"reset_gpu","at":"2026-01-01T12:00:00Z","outcome":"ordered","ran":true}],"cordon":"","ended_at":null,"incident":""}' AS BLOB));
CREATE INDEX launches_by_pool ON launches (pool, asked_at);
CREATE INDEX events_by_subject ON events (about, number);
CREATE INDEX events_by_revision ON events (revision);
CREATE INDEX events_by_time ON events (at);
CREATE INDEX launches_by_time ON launches (asked_at, token, instance);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',1);
PRAGMA user_version = 5;
