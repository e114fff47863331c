package server

import (
	"testing"

	"github.com/parawork/parawork/executors/runner/wire"
)

func TestFoldersOfAMachineAreForWhoMayUseIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	hello := wire.Hello{Version: wire.Version, OS: "linux", Arch: "amd64", Mode: wire.Docker, Available: true, Access: wire.Full, Network: "host",
		Folders: []wire.Folder{{Path: "/srv/work", Access: wire.Full, Git: true, Branch: "main"}}}
	own, _ := h.machine(t, p, "member", hello)
	mine, _ := h.machine(t, p, "admin", hello)
	hello.Share = "team"
	shared, _ := h.machine(t, p, "owner", hello)
	for _, c := range []struct {
		who, machine string
		status       int
	}{
		{"member", own.RunnerID, 200}, {"member", shared.RunnerID, 200}, {"owner", own.RunnerID, 404}, {"admin", own.RunnerID, 404}, {"viewer", own.RunnerID, 404},
		{"outsider", shared.RunnerID, 404}, {"operator", shared.RunnerID, 404}, {"admin", shared.RunnerID, 200},
	} {
		var got struct {
			Items []struct {
				Path, Name, Access, Branch string
				Git                        bool
			}
		}
		status, _ := h.call(t, p.tokens[c.who], "GET", "/runners/"+c.machine+"/folders", nil, &got)
		if status != c.status || status == 200 && (len(got.Items) != 1 || got.Items[0].Path != "/srv/work" || got.Items[0].Name != "work" || !got.Items[0].Git) {
			t.Errorf("%s on %s: %d %+v, want %d", c.who, c.machine, status, got.Items, c.status)
		}
	}
	// A project of a folder: only of a machine one may use. Where it cannot be read the project says so.
	source := func(id string) map[string]any {
		return map[string]any{"source": map[string]string{"kind": "runner", "runner_id": id, "path": "/srv/work"}}
	}
	for _, id := range []string{own.RunnerID, "rnr_00000000000000000000000000", "../x", ""} {
		if status, code := h.call(t, p.tokens["admin"], "POST", "/teams/"+p.team.Slug+"/projects", source(id), nil); status != 404 || code != "not_found" {
			t.Errorf("%q: %d %s", id, status, code)
		}
	}
	var made struct {
		ID, State string
		Source    struct {
			Kind, Path string
			RunnerID   string `json:"runner_id"`
		}
		StateReason string `json:"state_reason"`
	}
	if status, code := h.call(t, p.tokens["admin"], "POST", "/teams/"+p.team.Slug+"/projects", source(mine.RunnerID), &made); status != 201 {
		t.Fatal(status, code)
	}
	if made.Source.Kind != "runner" || made.Source.Path != "/srv/work" || made.Source.RunnerID != mine.RunnerID {
		t.Errorf("%+v", made)
	}
	eventually(t, "the offline machine is reported", func() bool {
		h.call(t, p.tokens["member"], "GET", "/projects/"+made.ID, nil, &made)
		return made.State == "failed" && made.StateReason == "admin's laptop is offline. Start it there with: parawork runner"
	})
	// Where nothing is borrowed there is nothing to deliver to.
	if status, code := h.call(t, p.tokens["member"], "POST", "/workspaces/"+p.ids["workspace"]+"/deliver", map[string]any{}, nil); status != 409 || code != "no_runner_folder" {
		t.Errorf("%d %s", status, code)
	}
}
