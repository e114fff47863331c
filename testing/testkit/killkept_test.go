package testkit_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// A server that is killed, one time after the other, while it keeps files, changes them, sends a review and removes what was deleted: what was
// on disk is in the timeline, what was cut can be done again, and what was begun to be removed goes.
func TestKilledWhileFilesAreKept(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, `"agents":{"reader":{"command":"/bin/sh","defaultArgs":["-c","echo up; while read l; do echo got $l; done"],"prompt":"paste"}}`)
	p := h.Sample()
	ws, first, second := h.Workspace(p, "Kept"), h.Workspace(p, "First"), h.Workspace(p, "Second")
	var reader testkit.Session
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "reader", "cols": 80, "rows": 24}, &reader)
	must(t, h.Attach(reader.ID, "from=0").See("up"))
	var before struct{ ID string }
	h.API("POST", "/workspaces/"+ws.ID+"/snapshots", map[string]any{"title": "before"}, &before)
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(ws.Path, name), []byte(text), 0o644))
	}
	// sees waits until the timeline has a file with a text. The server looks by itself.
	sees := func(name, text string) {
		t.Helper()
		h.Wait("the timeline has "+text+" of "+name, func() bool {
			_ = h.Try("POST", "/workspaces/"+ws.ID+"/sync", nil, nil)
			var line struct {
				Items []struct {
					Snapshot *struct{ ID string }
				}
			}
			if h.Try("GET", "/workspaces/"+ws.ID+"/timeline?limit=200&kind=poll,turn,commit,kept,manual", nil, &line) != nil {
				return false
			}
			for _, it := range line.Items {
				resp, got, err := h.Do("GET", "/workspaces/"+ws.ID+"/compare/file?rev="+it.Snapshot.ID+"&path="+url.QueryEscape(name), nil)
				if err == nil && resp.StatusCode == http.StatusOK && string(got) == text {
					return true
				}
			}
			return false
		})
	}
	on := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(ws.Path, name))
		return string(b)
	}
	restore := func(into map[string]any) error { return h.Try("POST", "/snapshots/"+before.ID+"/restore", into, nil) }
	both := map[string]any{"parts": []any{map[string]any{"path": "one"}, map[string]any{"path": "two"}}}
	edit := func() (oldest struct {
		ID       string
		UndoneAt int64 `json:"undone_at"`
	}) {
		var all struct {
			Items []struct {
				ID       string
				UndoneAt int64 `json:"undone_at"`
			}
		}
		_ = h.Try("GET", "/workspaces/"+ws.ID+"/edits?path=three", nil, &all)
		if n := len(all.Items); n > 0 {
			oldest = all.Items[n-1]
		}
		return oldest
	}
	review := func() (state string, n int) {
		var all struct {
			Items []struct{ ID, State string }
		}
		h.API("GET", "/workspaces/"+ws.ID+"/reviews", nil, &all)
		if len(all.Items) == 0 {
			return "", 0
		}
		return all.Items[0].State, len(all.Items)
	}
	trash := func() (ids []string) {
		var all struct{ Items []struct{ ID string } }
		h.API("GET", "/teams/"+h.Team+"/trash", nil, &all)
		for _, it := range all.Items {
			ids = append(ids, it.ID)
		}
		return ids
	}
	points := append(slices.Clone(failpoint.OfSnapshots), failpoint.ReviewStored, failpoint.PurgeRemoved, failpoint.PurgeBegun)
	for _, at := range failpoint.OfThePurge {
		if !slices.Contains(points, at) {
			t.Errorf("%s is not tried", at)
		}
	}
	h.DieInTurn(points, func(next failpoint.Point) {
		switch next {
		case failpoint.UndoKept:
			must(t, os.WriteFile(filepath.Join(ws.Path, "three"), []byte("3\n"), 0o644))
			h.Wait("the edit is listed", func() bool { return edit().ID != "" })
			_ = h.Try("POST", "/workspaces/"+ws.ID+"/edits/"+edit().ID+"/undo", map[string]any{"even_while_working": true}, nil)
		case failpoint.UndoWritten:
			if on("three") != "3\n" || edit().UndoneAt != 0 {
				t.Errorf("after a death before anything was undone: %q, %+v", on("three"), edit())
			}
			_ = h.Try("POST", "/workspaces/"+ws.ID+"/edits/"+edit().ID+"/undo", map[string]any{"even_while_working": true}, nil)
		case failpoint.SnapshotWritten:
			if on("three") != "" {
				t.Errorf("the file whose edit was being undone has %q", on("three"))
			}
			write("one", "1\n")
			_ = h.Try("POST", "/workspaces/"+ws.ID+"/sync", nil, nil)
		case failpoint.SnapshotKept: // it dies as soon as it looks
		case failpoint.SnapshotRestoring:
			sees("one", "1\n")
			write("two", "2\n")
			_ = restore(map[string]any{"into": "same"})
		case failpoint.PartsWriting:
			if on("one") != "" && on("two") != "" {
				t.Error("it did not die between two files")
			}
			sees("two", "2\n") // from before the restore, which was cut
			must(t, restore(map[string]any{"into": "same"}))
			if on("one")+on("two") != "" {
				t.Errorf("restored: %q %q", on("one"), on("two"))
			}
			write("one", "3\n")
			write("two", "4\n")
			_ = h.Try("POST", "/workspaces/"+ws.ID+"/discard", both, nil)
		case failpoint.ReviewStored:
			sees("one", "3\n")
			sees("two", "4\n")
			_ = h.Try("POST", "/workspaces/"+ws.ID+"/discard", both, nil) // one of them may be gone already
			_ = h.Try("POST", "/workspaces/"+ws.ID+"/review/send", map[string]any{"verdict": "comment", "body": "Mind the gap", "session_id": reader.ID}, nil)
		case failpoint.PurgeRemoved:
			h.Wait("the review is sent", func() bool { s, _ := review(); return s == "sent" })
			if _, n := review(); n != 1 {
				t.Errorf("%d reviews", n)
			}
			h.API("DELETE", "/workspaces/"+first.ID, nil, nil)
			h.API("DELETE", "/workspaces/"+second.ID, nil, nil)
			_ = h.Try("POST", "/teams/"+h.Team+"/trash/"+first.ID+"/purge", nil, nil)
		case failpoint.PurgeBegun:
			h.Wait("what was being removed is gone", func() bool { return slices.Equal(trash(), []string{second.ID}) })
			_ = h.Try("POST", "/teams/"+h.Team+"/trash/"+second.ID+"/purge", nil, nil)
		}
	})
	h.Wait("the edit is marked as undone", func() bool { return edit().UndoneAt != 0 }) // by what the timeline has
	h.Wait("the other is gone, too", func() bool {
		left, _ := filepath.Glob(filepath.Join(h.DataDir(), "*", second.ID))
		return len(trash()) == 0 && len(left) == 0
	})
	must(t, h.Attach(reader.ID, "from=0").See("Mind the gap"))
	if n := strings.Count(string(h.Output(reader.ID, 0)), "Mind the gap"); n != 1 && n != 2 { // typed, and maybe echoed
		t.Errorf("the agent got its review %d times", n)
	}
	sees("one", "1\n")
	sees("two", "4\n")
	d := &death{Instance: h, t: t}
	if out := d.execIn(ws, "git", "fsck", "--no-dangling", "--no-progress"); strings.Contains(out, "missing") || strings.Contains(out, "broken") {
		t.Errorf("git fsck: %s", out)
	}
}
