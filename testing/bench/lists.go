package main

import (
	"cmp"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "github.com/mattn/go-sqlite3" // the rows are written beside the server
)

// lists measures what people wait for whose team has thousands of workspaces: the list, the inbox and one workspace; and that the rows of
// other teams cost them nothing.
func (b *bench) lists() error {
	h, err := b.ownHarness("lists")
	if err != nil {
		return err
	}
	defer h.stop()
	if _, err := h.newSession("true"); err != nil {
		return err
	}
	if err := h.do("POST", "/workspaces/"+h.workspace+"/sync", nil, nil); err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", filepath.Join(h.data, "parawork.db")+"?_busy_timeout=10000&_txlock=immediate")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := h.ended(); err != nil {
		return err
	}
	n := b.size(5000, 200)
	if err := crowdTeam(db, h, "", n); err != nil {
		return fmt.Errorf("writing a team's rows: %w", err)
	}
	alone, err := b.waits(h)
	if err != nil {
		return err
	}
	for i := range 4 {
		if err := crowdTeam(db, h, fmt.Sprintf("other%d", i), n); err != nil {
			return fmt.Errorf("writing another team's rows: %w", err)
		}
	}
	among, err := b.waits(h)
	if err != nil {
		return err
	}
	for _, what := range waitsFor {
		b.figure(fmt.Sprintf("%s of %d workspaces, ms, 95th percentile", what, n), f1(alone[what]), "50", alone[what]/50, "<= 50 ms", alone[what] <= 50)
		ratio := among[what] / alone[what]
		b.figure("  with 4 other teams as large", f1(among[what]), f1(alone[what]), ratio, "<= 1.3", ratio <= 1.3)
	}
	return nil
}

var waitsFor = []string{"list", "inbox", "one"}

// waits returns how long each takes by the clock, ms.
func (b *bench) waits(h *harness) (map[string]float64, error) {
	out := map[string]float64{}
	paths := map[string]string{"list": "/teams/" + h.team + "/workspaces?limit=200", "inbox": "/teams/" + h.team + "/inbox", "one": "/workspaces/" + h.workspace}
	for what, path := range paths {
		var took []float64
		for i := range b.size(60, 5) + 5 {
			t0 := time.Now()
			if err := h.raw(path); err != nil {
				return nil, err
			}
			if i >= 5 { // the first ones open connections and fill caches
				took = append(took, us(time.Since(t0))/1e3)
			}
		}
		slices.Sort(took)
		out[what] = took[len(took)*95/100]
	}
	return out, nil
}

// ended waits until the instance's session has ended.
func (h *harness) ended() error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var list struct {
			Items []struct {
				EndedAt *int64 `json:"ended_at"`
			} `json:"items"`
		}
		if err := h.do("GET", "/workspaces/"+h.workspace+"/sessions", nil, &list); err != nil {
			return err
		}
		if len(list.Items) == 1 && list.Items[0].EndedAt != nil && *list.Items[0].EndedAt != 0 {
			return nil
		}
	}
	return fmt.Errorf("the session does not end")
}

// crowdTeam writes n workspaces like the instance's own into its team, or into a new one: each with changes and four sessions that have ended,
// the last of them looked at by the instance's user in nine of ten.
func crowdTeam(db *sql.DB, h *harness, team string, n int) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	own := func(column string) string { return column }
	project := own
	if team != "" {
		where := "id = (SELECT team_id FROM workspaces WHERE id = '" + h.workspace + "')"
		if err := clone(tx, "teams", where, 1, map[string]string{"id": "'team_" + team + "'", "slug": "'" + team + "'"}); err != nil {
			return err
		}
		if err := clone(tx, "projects", "id = '"+h.project+"'", 1, map[string]string{"id": "'prj_" + team + "'", "team_id": "'team_" + team + "'", "path": "path || '" + team + "'", "name": "name || '" + team + "'"}); err != nil {
			return err
		}
		own = func(string) string { return "'team_" + team + "'" }
		project = func(string) string { return "'prj_" + team + "'" }
	}
	id := func(prefix string) string { return "'" + prefix + team + "x' || i" }
	is := "workspace_id = '" + h.workspace + "'"
	if err := clone(tx, "workspaces", "id = '"+h.workspace+"'", n, map[string]string{"id": id("ws_"), "team_id": own("team_id"), "project_id": project("project_id"),
		"num": "num + i", "name": "name || i", "branch": "branch || i", "created_at": "created_at - i"}); err != nil {
		return err
	}
	if err := clone(tx, "change_sets", is, n, map[string]string{"workspace_id": id("ws_"), "team_id": own("team_id")}); err != nil {
		return err
	}
	for k := range 4 {
		if err := clone(tx, "sessions", is, n, map[string]string{"id": id(fmt.Sprintf("ses_%d", k)), "team_id": own("team_id"), "workspace_id": id("ws_"),
			"agent": "'claude-code'", "conversation": "''", "ended_at": fmt.Sprintf("ended_at - %d", k)}); err != nil {
			return err
		}
	}
	_, err = tx.Exec(`INSERT INTO inbox_marks (user_id, item_id, team_id, workspace_id, snoozed_until, done_at)
		SELECT created_by, id, team_id, workspace_id, 0, 1 FROM sessions WHERE id LIKE 'ses_0` + team + `x%' AND (CAST(substr(id, ` + fmt.Sprint(len("ses_0"+team+"x")+1) + `) AS INTEGER) % 10) <> 0`)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// clone writes a row n times, i from 1 on, with other values in some of its columns.
func clone(tx *sql.Tx, table, where string, n int, with map[string]string) error {
	rows, err := tx.Query("SELECT name FROM pragma_table_info('" + table + "')")
	if err != nil {
		return err
	}
	defer rows.Close()
	var columns, values []string
	for rows.Next() {
		var c string
		if err := rows.Scan(&c); err != nil {
			return err
		}
		v := cmp.Or(with[c], c)
		columns, values = append(columns, c), append(values, v)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	_, err = tx.Exec(fmt.Sprintf(`WITH RECURSIVE many(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < %d)
		INSERT INTO %s (%s) SELECT %s FROM %s, many WHERE %s`, n, table, strings.Join(columns, ","), strings.Join(values, ","), table, where))
	return err
}
