-- What agents ask, and what each user did with their inbox.

CREATE TABLE questions (
    id           TEXT PRIMARY KEY,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    session_id   TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    ask_key      TEXT NOT NULL,                  -- names the question within its session: found again after a restart
    kind         TEXT NOT NULL,                  -- permission, choice, text
    title        TEXT NOT NULL,
    detail       TEXT NOT NULL DEFAULT '',
    options      TEXT NOT NULL DEFAULT '[]',     -- JSON
    multi        BOOLEAN NOT NULL DEFAULT FALSE,
    free_text    BOOLEAN NOT NULL DEFAULT FALSE,
    source       TEXT NOT NULL,                  -- hook, screen, notice
    asked_at     BIGINT NOT NULL,
    state        TEXT NOT NULL,                  -- open, answered, withdrawn
    answered_by  TEXT NOT NULL DEFAULT '',       -- a user, '' = whoever sat at the terminal
    answered_at  BIGINT NOT NULL DEFAULT 0,      -- also when it was withdrawn
    answer       TEXT NOT NULL DEFAULT '',
    via          TEXT NOT NULL DEFAULT ''
);
CREATE INDEX questions_by_session ON questions(session_id, asked_at, id);
CREATE INDEX questions_open ON questions(team_id) WHERE state = 'open';

CREATE TABLE inbox_marks (
    user_id       TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
    item_id       TEXT NOT NULL,
    team_id       TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    workspace_id  TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
    snoozed_until BIGINT NOT NULL DEFAULT 0,
    done_at       BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, item_id)
);
CREATE INDEX inbox_marks_by_team ON inbox_marks(team_id, user_id);
