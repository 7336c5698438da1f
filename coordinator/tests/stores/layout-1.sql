-- A store of layout 1, by version 0.1.0, killed at rest.
BEGIN TRANSACTION;
CREATE TABLE incarnation (
         id INTEGER PRIMARY KEY CHECK (id = 1),
         epoch INTEGER NOT NULL,          -- starts of a coordinator on this store
         holder TEXT NOT NULL,            -- drawn at that start
         unix_s REAL NOT NULL
     ) STRICT;
INSERT INTO "incarnation" VALUES(1,1,'fc1d58566be2586e',1.79604160348410630231e+09);
CREATE TABLE log (
         number INTEGER PRIMARY KEY,      -- from 1, no gaps
         now_s REAL NOT NULL,             -- coordinator's clock: seconds since the store was made
         unix_s REAL NOT NULL,            -- seconds since 1970, for people
         epoch INTEGER NOT NULL,          -- incarnation of the coordinator that wrote it
         job_id INTEGER NOT NULL,         -- 0: concerns no single job
         body TEXT NOT NULL,              -- the record as JSON
         sum TEXT NOT NULL                -- digest of all of it: SQLite does not notice a flipped bit
     ) STRICT;
INSERT INTO "log" VALUES(1,3.44079824841308579488e-03,1.79604160348754882808e+09,1,0,'{"v":1,"record":{"started":{"configuration":{"engine":{"round_s":30.0,"lead_s":2.5,"plan_budget_s":3.75,"reactive":true,"planning":"beside","ttl_s":60.0,"reconnect_s":60.0,"grace_s":30.0,"kill_wait_s":10.0,"min_run_s":7.5,"restart_s":20.0,"retries":5,"backoff_s":5.0,"backoff_max_s":300.0,"node_failures_max":3},"policy":"shockwave","tuning":{"rounds":null,"k":null,"lambda":null,"samples":1},"predictor":"hierarchical","log_bytes_max":67108864,"jobs_max":100000},"program":"0.1.0"}}}','37e375a6109c26e5');
INSERT INTO "log" VALUES(2,2.89818722484130875116e-02,1796041603.51309,1,0,'{"v":1,"record":{"joined":{"node":"head","instance":"f9e5d4fc7f727523f03665fc7daf441e","address":"127.0.0.1","devices":[{"index":0,"kind":"cpu","model":"","memory_bytes":0}],"keeps":[],"until_s":null}}}','fb7cd2d14ef76a73');
INSERT INTO "log" VALUES(3,2.71643518248413096127e-01,1.79604160375575208664e+09,1,1,'{"v":1,"record":{"submitted":{"job":1,"user":"ada","key":"b8ddf75309b48650f332202539544ad9","request":{"name":"first","command":["true"],"env":{"LD_LIBRARY_PATH":"","PATH":"/usr/bin:/bin"},"working_dir":"/","gpus":1,"workers":1,"weight":1.0,"declaration":null,"grace_s":0.0,"checkpoint_dir":"","retries":0,"after":[],"held":false,"time_limit_s":0.0,"device_kind":"","device_memory_bytes":0}}}}','b7c881b639e473ca');
INSERT INTO "log" VALUES(4,2.97851302248413107864e-01,1.79604160378195953362e+09,1,1,'{"v":1,"record":{"running":{"job":1,"lease_epoch":1,"node":"head"}}}','eb276d16bba98835');
INSERT INTO "log" VALUES(5,3.40064161248413099336e-01,1.79604160382417225839e+09,1,1,'{"v":1,"record":{"released":{"job":1,"lease_epoch":1,"node":"head","reason":{"exited":{"code":0}}}}}','9619b3679c76a066');
INSERT INTO "log" VALUES(6,3.82055087248413083322e-01,1.79604160386616349223e+09,1,2,'{"v":1,"record":{"submitted":{"job":2,"user":"ada","key":"e4825a96426f77dd415ea6c635a191e7","request":{"name":"second","command":["sleep","1000"],"env":{"LD_LIBRARY_PATH":"","PATH":"/usr/bin:/bin"},"working_dir":"/","gpus":1,"workers":1,"weight":1.0,"declaration":null,"grace_s":0.0,"checkpoint_dir":"","retries":0,"after":[],"held":false,"time_limit_s":0.0,"device_kind":"","device_memory_bytes":0}}}}','e3c9545547e95fbb');
INSERT INTO "log" VALUES(7,4.01707997248413106738e-01,1.79604160388581657412e+09,1,2,'{"v":1,"record":{"running":{"job":2,"lease_epoch":1,"node":"head"}}}','fcacc3e4ad262a8e');
INSERT INTO "log" VALUES(8,3.40313874724841314289e+00,1.79604160688724732398e+09,1,2,'{"v":1,"record":{"cancelled":{"job":2,"why":"cancelled by ada"}}}','1b9d786646a0ab68');
INSERT INTO "log" VALUES(9,3.45610995924841324367e+00,1.79604160694021797181e+09,1,2,'{"v":1,"record":{"released":{"job":2,"lease_epoch":1,"node":"head","reason":"killed"}}}','2f280857982cd35d');
INSERT INTO "log" VALUES(10,3.49666070324841316008e+00,1.7960416069807691574e+09,1,3,'{"v":1,"record":{"submitted":{"job":3,"user":"ada","key":"88de1083400f55176d6ae9fb66eded19","request":{"name":"third","command":["sleep","6"],"env":{"LD_LIBRARY_PATH":"","PATH":"/usr/bin:/bin"},"working_dir":"/","gpus":1,"workers":1,"weight":2.5,"declaration":null,"grace_s":0.0,"checkpoint_dir":"","retries":0,"after":[],"held":true,"time_limit_s":0.0,"device_kind":"","device_memory_bytes":0}}}}','61d31476d2c82d39');
INSERT INTO "log" VALUES(11,3.51983595724841302754e+00,1.79604160700394463543e+09,1,0,'{"v":1,"record":{"user_set":{"terms":{"user":"ada","weight":2.0,"gpus_max":8}}}}','68f43158d72359c4');
INSERT INTO "log" VALUES(12,3.53524263424841311831e+00,1.79604160701935029026e+09,1,0,'{"v":1,"record":{"token_added":{"token":{"id":1,"user":"bob","is_admin":false,"made_unix_s":1796041607.019347,"expires_unix_s":1803817607.019347,"revoked_unix_s":null,"note":"for the test","is_agent":false,"node":""},"digest":"528334bc27fa2bb7bf3e528211e111da4f4cd875ee89ae5e1fda74af61a31ddd"}}}','0beae378e599eb26');
CREATE TABLE snapshot (
         number INTEGER PRIMARY KEY,      -- last record that it holds
         now_s REAL NOT NULL,
         version TEXT NOT NULL,           -- program that wrote it: another one replays the log
         body BLOB NOT NULL,
         sha256 TEXT NOT NULL
     ) STRICT;
CREATE TABLE store (
         id INTEGER PRIMARY KEY CHECK (id = 1),
         made_unix_s REAL NOT NULL,
         secret TEXT NOT NULL             -- job tokens and nonces are made from it
     ) STRICT;
INSERT INTO "store" VALUES(1,1.79604160348410630231e+09,'47d9ae3eaf0e654456813e6e5f57c95ecd12cd13a531317ef64943d32b2bd06a');
CREATE INDEX log_by_job ON log (job_id, number) WHERE job_id != 0;
COMMIT;
PRAGMA user_version = 1;
