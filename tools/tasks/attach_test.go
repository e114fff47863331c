package tasks_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/tasks"
)

func (st *stage) artifact(id, project, workspace, session string, at int64) {
	st.t.Helper()
	st.exec(`INSERT INTO artifacts (id, team_id, project_id, workspace_id, session_id, created_by, name, version, mime, size, sha256, metadata, state, created_at) VALUES (?,?,?,?,?,?,?,1,'text/plain',3,'x','{}','ready',?)`,
		id, st.who.TeamID, project, workspace, session, st.who.UserID, id+".txt", at)
}

func artifactsOf(d tasks.Detail) string {
	var ids []string
	for _, a := range d.Artifacts {
		ids = append(ids, a.ID)
	}
	return strings.Join(ids, " ")
}

func TestArtifactsBelongToTasks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		st := newStage(t, db)
		ctx, agent := t.Context(), st.agent("ws_1")
		task := st.add("first")
		st.artifact("art_before", "prj_1", "ws_1", "ses_ws_1", 1)
		claimed, err := st.s.Claim(ctx, agent, task.ID)
		if err != nil {
			t.Fatal(err)
		}
		later := claimed.UpdatedAt + 1000
		st.artifact("art_saved", "prj_1", "ws_1", "ses_ws_1", later)
		st.artifact("art_other", "prj_1", "ws_2", "ses_ws_2", later+1)
		st.artifact("art_foreign", "prj_2", "ws_2", "", later)
		d, err := st.s.Get(ctx, st.who, task.ID)
		if err != nil || artifactsOf(d) != "art_saved" {
			t.Fatalf("%q %v", artifactsOf(d), err)
		}
		if d, err = st.s.Attach(ctx, agent, task.ID, "art_other", "art_before"); err != nil || artifactsOf(d) != "art_other art_saved art_before" {
			t.Fatalf("%q %v", artifactsOf(d), err)
		}
		if _, err := st.s.Attach(ctx, agent, task.ID, "art_foreign"); fault.CodeOf(err) != "artifact_not_found" {
			t.Errorf("an artifact of another project: %v", err)
		}
		st.exec(`UPDATE workspaces SET private = TRUE WHERE id = 'ws_2'`)
		stranger := tasks.Who{TeamID: st.who.TeamID, UserID: "usr_stranger"}
		if d, err = st.s.Get(ctx, stranger, task.ID); err != nil || artifactsOf(d) != "art_saved art_before" {
			t.Errorf("of a private workspace a stranger sees %q %v", artifactsOf(d), err)
		}
		if d, err = st.s.Detach(ctx, st.who, task.ID, "art_before"); err != nil || artifactsOf(d) != "art_other art_saved" {
			t.Errorf("%q %v", artifactsOf(d), err)
		}
		open := tasks.Open
		if _, err := st.s.Update(ctx, agent, task.ID, tasks.Change{Status: &open}); err != nil {
			t.Fatal(err)
		}
		if d, _ = st.s.Get(ctx, st.who, task.ID); artifactsOf(d) != "art_other art_saved" || d.Assignee != "" {
			t.Errorf("given back: %q, %q", artifactsOf(d), d.Assignee)
		}
		if d, err = st.s.Detach(ctx, st.who, task.ID, "art_saved"); err != nil || artifactsOf(d) != "art_other" {
			t.Errorf("%q %v", artifactsOf(d), err)
		}
	})
}

type files map[string]string

func (f files) Write(_ context.Context, workspaceID, path string, r io.Reader, _ string) (guest.FileInfo, error) {
	b, err := io.ReadAll(r)
	f[workspaceID+" "+path] = string(b)
	return guest.FileInfo{}, err
}

func TestTasksAsAFileOfTheRepository(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	written, named := files{}, ""
	s := tasks.NewService(tasks.Config{Store: toolstore.NewTasks(st.db), Projects: records{st.db}, Files: written, FileOf: func(context.Context, string) (string, error) { return named, nil }})
	for _, title := range []string{"one", "two", "three"} {
		st.add(title)
	}
	w, err := s.ExportTo(t.Context(), st.who, "ws_1", "")
	first := written["ws_1 .parawork/tasks.jsonl"]
	if err != nil || w.Tasks != 3 || w.Path != tasks.DefaultFile || int(w.Size) != len(first) {
		t.Fatalf("%+v %v", w, err)
	}
	urgent := 0
	if _, err := st.s.Update(t.Context(), st.who, "PW-T3", tasks.Change{Priority: &urgent}); err != nil {
		t.Fatal(err)
	}
	named = "plan/tasks.jsonl"
	if _, err := s.ExportTo(t.Context(), st.agent("ws_1"), "ws_1", ""); err != nil {
		t.Fatal(err)
	}
	second := written["ws_1 plan/tasks.jsonl"]
	a, b := bytes.Split([]byte(first), []byte("\n")), bytes.Split([]byte(second), []byte("\n"))
	if len(a) != len(b) || !bytes.Equal(a[0], b[0]) || !bytes.Equal(a[1], b[1]) || bytes.Equal(a[2], b[2]) {
		t.Errorf("a change of one task changes other lines:\n%s\n%s", first, second)
	}
	for _, bad := range []string{"/etc/x.jsonl", "../x.jsonl", ".git/x.jsonl", "x.txt"} {
		if _, err := s.ExportTo(t.Context(), st.who, "ws_1", bad); fault.CodeOf(err) != "invalid_task_settings" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	other := st.agent("ws_1")
	other.ProjectID = "prj_2"
	if _, err := s.ExportTo(t.Context(), other, "ws_1", ""); fault.CodeOf(err) != "workspace_not_found" {
		t.Errorf("of another project: %v", err)
	}
}
