package testkit_test

import (
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// A team that is suspended is shut at once and loses nothing; restored, it goes on.
func TestSuspendedTeamIsShutAndLosesNothing(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Kept through a suspension")
	s := h.Run(ws.ID, "sh", "-c", "echo precious > kept.txt; echo begun; exec sleep 600")
	term := h.Attach(s.ID, "from=0&role=viewer")
	if err := term.See("begun"); err != nil {
		t.Fatal(err)
	}
	type instance struct {
		Items []struct {
			ID, Slug  string
			Sandboxes int
			Suspended *int64 `json:"suspended_at"`
		}
	}
	var teams instance
	h.API("GET", "/instance/teams", nil, &teams)
	if len(teams.Items) != 1 || teams.Items[0].Sandboxes != 1 {
		t.Fatalf("teams: %+v", teams)
	}
	at := "/instance/teams/" + teams.Items[0].ID
	h.API("POST", at+"/suspend", nil, nil)
	if err := term.Until("the terminal closes", func() bool { return term.Err() != nil }); err != nil && term.Err() == nil {
		t.Error(err)
	}
	h.Refused(403, "team_suspended", "GET", "/workspaces/"+ws.ID, nil)
	h.Refused(403, "team_suspended", "POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "shell"})
	h.Wait("its sandbox ends", func() bool {
		h.API("GET", "/instance/teams", nil, &teams)
		return teams.Items[0].Sandboxes == 0 && teams.Items[0].Suspended != nil
	})

	// The command line restores it beside the server.
	h.Admin("restore-team", "--team", teams.Items[0].Slug)
	if end := h.Ended(s.ID); end.State == "" {
		t.Errorf("the session: %+v", end)
	}
	if resp, b, err := h.Do("GET", testkit.FilePath(ws.ID, "kept.txt"), nil); err != nil || resp.StatusCode != 200 || string(b) != "precious\n" {
		t.Errorf("the file: %v %v %q", resp, err, b)
	}
	h.Ended(h.Run(ws.ID, "true").ID)
}

// The command line suspends a user beside a server that runs: within seconds the user's sockets are closed and their work is stopped.
func TestCommandLineSuspendsAUser(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Of two people")
	me := h.Run(ws.ID, "sh", "-c", "echo mine; exec sleep 600")
	token := h.NewUser("bob@example.com", "Bob", "--team", "harbour")
	bob := h.As(token)
	var s testkit.Session
	bob.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "command", "argv": []string{"sh", "-c", "echo bobs; exec sleep 600"}, "cols": 80, "rows": 24}, &s)
	term, resp, err := bob.TryAttach(s.ID, "from=0&role=viewer", nil)
	if err != nil {
		t.Fatalf("%v %v", err, resp)
	}
	t.Cleanup(term.Close)
	if err := term.See("bobs"); err != nil {
		t.Fatal(err)
	}
	h.Admin("suspend-user", "--email", "bob@example.com")
	if err := term.Until("the terminal closes", func() bool { return term.Err() != nil }); err != nil && term.Err() == nil {
		t.Error(err)
	}
	bob.Refused(401, "invalid_token", "GET", "/me", nil)
	h.Ended(s.ID)
	// What others run there goes on.
	var mine testkit.Session
	if h.API("GET", "/sessions/"+me.ID, nil, &mine); mine.State == "exited" || mine.State == "failed" || mine.State == "lost" {
		t.Errorf("somebody else's session: %+v", mine)
	}
}
