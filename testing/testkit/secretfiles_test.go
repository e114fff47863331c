package testkit_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// A secret's file is shown by no link or copy that leads to it, is written through no link into a file that is part of the repository, and
// does not outlive the place it was written in, although the worktree does.
func TestFilesOfSecretsAreShownByNoOtherWay(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	project := h.Sample()
	add := func(name, target string) {
		addSecret(h, "/teams/"+h.Team+"/secrets", map[string]any{"kind": "file", "name": name, "target": target, "value": "PASSWORD=the-password-in-a-file\n", "project_id": project})
	}
	add("settings", "conf/local.env")
	ws := h.Workspace(project, "w")
	exec := func(line string) error {
		return h.Try("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": line}, nil)
	}
	run := h.Run(ws.ID, "sh", "-c", "echo ready; read x")
	must(t, exec(`ln -s conf/local.env peek; cp conf/local.env copy; ln conf/local.env hard`))
	for _, name := range []string{"conf/local.env", "peek", "copy", "hard"} {
		h.Refused(403, "secret_file", "GET", testkit.FilePath(ws.ID, name), nil)
	}
	// An agent may let git see it again: no snapshot has it, and nobody reads it as a change.
	must(t, exec(`printf '!local.env\n' > .gitignore; echo mine > work.txt; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm "all of it"`))
	var snap struct {
		ID      string
		Missing []struct{ Path, Reason string }
	}
	h.API("POST", "/workspaces/"+ws.ID+"/snapshots", map[string]any{"title": "now"}, &snap)
	for _, rev := range []string{"now", "head", snap.ID} {
		for _, name := range []string{"conf/local.env", "copy"} {
			if r, _, err := h.Do("GET", "/workspaces/"+ws.ID+"/compare/file?rev="+rev+"&path="+name, nil); err != nil || r.StatusCode < 400 || rev == "head" && r.StatusCode != 403 {
				t.Errorf("%s of %s: %v %v", name, rev, r, err)
			}
		}
		_, body, err := h.Do("GET", "/workspaces/"+ws.ID+"/compare/patch?to="+rev, nil)
		must(t, err)
		patch := string(body)
		if strings.Contains(patch, "the-password") || !strings.Contains(patch, "work.txt") {
			t.Errorf("the patch of %s:\n%s", rev, patch)
		}
		var found struct{ Items []any }
		h.API("GET", "/workspaces/"+ws.ID+"/compare/search?q=the-password&to="+rev, nil, &found)
		if len(found.Items) != 0 {
			t.Errorf("searching %s finds %v", rev, found.Items)
		}
	}
	for _, name := range []string{"conf/local.env", "copy"} {
		h.Refused(403, "secret_file", "GET", "/workspaces/"+ws.ID+"/diff?path="+name, nil)
		if !slices.ContainsFunc(snap.Missing, func(m struct{ Path, Reason string }) bool { return m.Path == name }) {
			t.Errorf("the snapshot does not say that it lacks %s: %+v", name, snap.Missing)
		}
	}
	must(t, exec("git reset -q HEAD^; rm -f peek copy hard work.txt .gitignore"))

	// The place dies with all in it.
	var guest struct{ Stdout string }
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "echo $PPID"}, &guest)
	pid, err := strconv.Atoi(strings.TrimSpace(guest.Stdout))
	must(t, err)
	h.Kill()
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	h.Boot()
	if s := h.Ended(run.ID); s.State != "lost" {
		t.Fatalf("the session ended as %+v", s)
	}
	h.Wait("the file is gone", func() bool {
		_, err := os.Lstat(filepath.Join(ws.Path, "conf/local.env"))
		return errors.Is(err, fs.ErrNotExist)
	})

	add("linked", "linked.env")
	must(t, exec(`ln -s README.md linked.env`))
	before, err := os.ReadFile(filepath.Join(ws.Path, "README.md"))
	must(t, err)
	var s testkit.Session
	h.API("POST", "/workspaces/"+ws.ID+"/sessions", map[string]any{"agent": "command", "argv": []string{"true"}}, &s)
	if s.State != "failed" {
		t.Errorf("the session is %+v", s)
	}
	if after, err := os.ReadFile(filepath.Join(ws.Path, "README.md")); err != nil || string(after) != string(before) {
		t.Errorf("the value went through a link: %q, %v", after, err)
	}
}

// What one person gave a session, another's command masks, and the other way round: both work in the same place.
func TestSecretsOfOthersInOnePlaceAreMasked(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	const mine, his = "the-token-of-the-owner", "the-token-of-the-member"
	addSecret(h, "/me/secrets", map[string]any{"kind": "env", "name": "OWN_TOKEN", "value": mine})
	ws := h.Workspace(h.Sample(), "w")
	bob := h.As(h.NewUser("bob@example.com", "Bob", "--team", h.Team))
	bob.API("POST", "/me/secrets", map[string]any{"kind": "env", "name": "OWN_TOKEN", "value": his}, nil)
	agrees := map[string]any{"agreed": true} // that the other could read it
	h.API("PUT", "/workspaces/"+ws.ID+"/own-secrets", agrees, nil)
	bob.API("PUT", "/workspaces/"+ws.ID+"/own-secrets", agrees, nil)
	run := h.Run(ws.ID, "sh", "-c", `printf %s "$OWN_TOKEN" >mine; echo ready; read x; echo "read $(cat his)."`)
	h.Wait("the session has begun", func() bool { return bytes.Contains(h.Output(run.ID, 0), []byte("ready")) })
	var cmd struct{ Stdout string }
	bob.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": `printf %s "$OWN_TOKEN" >his; echo "read $(cat mine)."`}, &cmd)
	if want := "read " + strings.Repeat("*", len(mine)) + ".\n"; cmd.Stdout != want {
		t.Errorf("the member's command shows %q", cmd.Stdout)
	}
	h.API("POST", "/sessions/"+run.ID+"/input", map[string]any{"text": "\r"}, nil)
	h.Ended(run.ID)
	if out := string(h.Output(run.ID, 0)); !strings.Contains(out, "read "+strings.Repeat("*", len(his))+".") {
		t.Errorf("the owner's session shows %q", out)
	}
}

// What a session was given stays known when it has ended, the secret was replaced and deleted, and the server was started again: nobody reads
// it in files, changes and snapshots, whatever was done with the file meanwhile.
func TestSecretsAreKnownAfterTheirSession(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	project := h.Sample()
	const value = "sk-live-the-value-of-production"
	k := addSecret(h, "/teams/"+h.Team+"/secrets", map[string]any{"kind": "file", "name": "prod", "target": "conf/prod.env", "value": "API_KEY=" + value + "\n", "project_id": project})
	ws := h.Workspace(project, "w")
	exec := func(line string) {
		t.Helper()
		must(t, h.Try("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": line}, nil))
	}
	run := h.Run(ws.ID, "sh", "-c", `git add -f conf/prod.env; git -c user.name=a -c user.email=a@example.com commit -qm "all of it"
		echo >> conf/prod.env; { echo MORE=1; cat conf/prod.env; } > copy.env; printf 'key = "%s"\n' "$(sed 's/.*=//;q' conf/prod.env)" > main.py; echo mine > work.txt`)
	h.Ended(run.ID)
	hidden := func(when string) {
		t.Helper()
		var snap struct{ ID string }
		h.API("POST", "/workspaces/"+ws.ID+"/snapshots", map[string]any{"title": when}, &snap)
		paths := []string{"/diff?path=conf/prod.env", "/diff?path=copy.env", "/diff?path=main.py"}
		for _, rev := range []string{"now", "head", snap.ID} {
			paths = append(paths, "/compare/patch?to="+rev, "/compare?to="+rev, "/compare/search?q=sk-live&to="+rev, "/parts?path=main.py&to="+rev)
			for _, name := range []string{"conf/prod.env", "copy.env", "main.py"} {
				paths = append(paths, "/compare/file?rev="+rev+"&path="+name)
			}
		}
		for _, name := range []string{"conf/prod.env", "copy.env", "main.py"} {
			paths = append(paths, strings.TrimPrefix(testkit.FilePath(ws.ID, name), "/workspaces/"+ws.ID))
		}
		for _, path := range paths {
			_, body, err := h.Do("GET", "/workspaces/"+ws.ID+path, nil)
			must(t, err)
			if strings.Contains(string(body), value) {
				t.Errorf("%s: %s shows it:\n%s", when, path, body)
			}
		}
		h.Refused(403, "secret_file", "GET", testkit.FilePath(ws.ID, "conf/prod.env"), nil)
		h.Refused(403, "secret_value", "GET", testkit.FilePath(ws.ID, "copy.env"), nil)
		if _, body, err := h.Do("GET", "/workspaces/"+ws.ID+"/compare/patch?to="+snap.ID, nil); err != nil || !strings.Contains(string(body), "work.txt") || !strings.Contains(string(body), "+key = \"****") {
			t.Errorf("%s: the rest is not shown:\n%s", when, body)
		}
		h.Refused(409, "commits_hold_secret", "POST", "/workspaces/"+ws.ID+"/merge", map[string]any{"strategy": "merge"})
	}
	hidden("after its session")
	h.API("PATCH", "/secrets/"+k.ID, map[string]any{"value": "API_KEY=another-value-that-is-long\n"}, nil)
	hidden("after it was replaced")
	h.API("DELETE", "/secrets/"+k.ID, nil, nil)
	hidden("after it was deleted")
	h.Terminate()
	h.Boot()
	hidden("after a restart")
	exec("git reset -q --soft HEAD^; git rm -qrf --cached conf; rm -rf conf copy.env main.py; git add -A; git -c user.name=a -c user.email=a@example.com commit -qm clean")
	var m struct{ Merged bool }
	h.API("POST", "/workspaces/"+ws.ID+"/merge", map[string]any{"strategy": "merge"}, &m)
	if !m.Merged {
		t.Error("what holds no secret is not merged")
	}
}
