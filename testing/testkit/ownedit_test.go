package testkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
)

// A prompt is replaced, a conversation goes on in a fork, and a turn is undone with what it changed in files, while what a person changed
// since stays; also when the server is killed in the middle.
func TestOwnAgentIsEdited(t *testing.T) {
	h, _, _ := ownAgent(t)
	ws := h.WorkspaceIn("local", h.Sample(), "Edited")
	write := func(text string) []any { return calls("run_command", map[string]any{"command": text}) }
	var s struct{ ID string }
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "parawork", "permissions": "all", "confirm_no_boundary": true,
		"prompt": script(t, map[string]any{"text": "I write.", "tools": write("printf '1\n2\n3\n4\n5\n6\n7\n' > made.txt")}, says("Written.", 1, 1, 0, 0))}, &s)
	w := &work{t: t, h: h, id: s.ID}
	w.waits("the first turn", func() bool { return strings.Contains(w.screen(), "Written.") })
	w.reaches("idle")
	has := func(want string) {
		t.Helper()
		if b, _ := os.ReadFile(filepath.Join(ws.Path, "made.txt")); string(b) != want {
			t.Errorf("made.txt has %q, not %q", b, want)
		}
	}
	var thread struct {
		ID       string
		Parent   string `json:"parent_id"`
		Messages []struct{ ID, Role, State string }
	}
	h.API("GET", "/sessions/"+s.ID+"/thread", nil, &thread)
	at := "/threads/" + thread.ID
	var second, third struct{ ID string }
	h.API("POST", at+"/messages", map[string]any{"text": script(t, map[string]any{"text": "I change.", "tools": write("sed -i s/2/two/ made.txt")}, says("Changed.", 1, 1, 0, 0))}, &second)
	w.waits("the second turn", func() bool { return strings.Contains(w.screen(), "Changed.") })
	w.reaches("idle")
	has("1\ntwo\n3\n4\n5\n6\n7\n")

	var fork struct {
		Session struct{ ID string }
		Thread  struct {
			ID     string
			Parent string `json:"parent_id"`
		}
	}
	h.API("POST", at+"/fork", map[string]any{"message_id": second.ID, "text": script(t, says("Forked.", 1, 1, 0, 0))}, &fork)
	f := &work{t: t, h: h, id: fork.Session.ID}
	f.waits("the fork answers", func() bool {
		return strings.Contains(f.screen(), "Forked.") && strings.Contains(f.screen(), "Written.")
	})
	f.reaches("idle")
	if fork.Thread.Parent != thread.ID {
		t.Errorf("the fork is of %q", fork.Thread.Parent)
	}
	var talk struct {
		Items []struct {
			Kind, Text string
			Undone     bool
		}
	}
	h.API("GET", "/sessions/"+fork.Session.ID+"/conversation", nil, &talk)
	said := ""
	for _, it := range talk.Items {
		said += it.Kind + " "
	}
	if !strings.HasPrefix(said, "prompt text tool text note prompt text") {
		t.Errorf("the fork's conversation: %s", said)
	}

	// A fork into a new workspace has the files as they were before the prompt; the other keeps its own.
	var apart struct {
		Session struct {
			ID        string
			Workspace string `json:"workspace_id"`
		}
	}
	var sibling struct{ Path, Name string }
	h.API("POST", at+"/fork", map[string]any{"message_id": second.ID, "workspace": true, "text": script(t, map[string]any{"tools": write("echo apart >> made.txt")}, says("Apart.", 1, 1, 0, 0))}, &apart)
	(&work{t: t, h: h, id: apart.Session.ID}).reaches("idle")
	h.API("GET", "/workspaces/"+apart.Session.Workspace, nil, &sibling)
	has("1\ntwo\n3\n4\n5\n6\n7\n")
	mine := ws.Path
	ws.Path = sibling.Path
	has("1\n2\n3\n4\n5\n6\n7\napart\n")
	ws.Path = mine
	if sibling.Name != "Edited (fork)" {
		t.Errorf("the workspace is %+v", sibling)
	}

	h.API("POST", at+"/messages", map[string]any{"replaces": second.ID, "text": script(t, map[string]any{"text": "I add.", "tools": write("echo end >> made.txt")}, says("Added.", 1, 1, 0, 0))}, &third)
	w.waits("the turn of the new prompt", func() bool { return strings.Contains(w.screen(), "Added.") })
	w.reaches("idle")
	has("1\ntwo\n3\n4\n5\n6\n7\nend\n")

	// A person changes another place of the file; then the last turn is undone, and the server dies between files and messages.
	if err := os.WriteFile(filepath.Join(ws.Path, "made.txt"), []byte("ONE\ntwo\n3\n4\n5\n6\n7\nend\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.DieAt(failpoint.TurnUndone, func() { _ = h.Try("POST", at+"/undo", map[string]any{"files": true}, nil) })
	w.waits("the undo goes on", func() bool {
		h.API("GET", at, nil, &thread)
		for _, m := range thread.Messages {
			if m.ID == third.ID {
				return m.State == "undone"
			}
		}
		return false
	})
	has("ONE\ntwo\n3\n4\n5\n6\n7\n")

	// The first turn contradicts what the person changed: nothing is undone, and the answer says where.
	var undone struct {
		Snapshot string `json:"safety_snapshot"`
		Changed  []string
	}
	if err := h.Try("POST", at+"/undo", map[string]any{"files": true}, nil); err == nil || !strings.Contains(err.Error(), "undo_conflict") {
		t.Errorf("an undo that contradicts: %v", err)
	}
	has("ONE\ntwo\n3\n4\n5\n6\n7\n")
	h.API("POST", at+"/undo", map[string]any{"files": false}, &undone)
	if undone.Snapshot != "" || len(undone.Changed) != 0 {
		t.Errorf("undone without files: %+v", undone)
	}
	has("ONE\ntwo\n3\n4\n5\n6\n7\n")
	var set struct{ Mode string }
	h.API("PATCH", at, map[string]any{"mode": "plan"}, &set)
	h.API("POST", at+"/clear", nil, nil)
	if set.Mode != "plan" {
		t.Errorf("the mode is %s", set.Mode)
	}
}
