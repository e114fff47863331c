package testkit_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/testing/testkit"
)

// secret is one as the API shows it.
type secret struct {
	ID       string `json:"id"`
	LastFour string `json:"last_four"`
	Sessions int    `json:"sessions"`
	Outdated []struct {
		SessionID string `json:"session_id"`
	} `json:"outdated"`
}

func addSecret(h *testkit.Instance, path string, body map[string]any) secret {
	var s secret
	h.API("POST", path, body, &s)
	return s
}

// A session is given what is meant for it, and shows none of it: not in its output however it is cut, not in the answers about files,
// changes and commands, also after the server was killed; what becomes a secret later is masked, too.
func TestSecretsReachSessionsAndNothingElse(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	project := h.Sample()
	teamPath := "/teams/" + h.Team + "/secrets"
	const env, file, home, later = "swordfish-of-the-team", "the-password-in-a-file", "registry-token-of-mine", "not-yet-a-secret-value"
	first := addSecret(h, teamPath, map[string]any{"kind": "env", "name": "DEPLOY_TOKEN", "value": env})
	addSecret(h, teamPath, map[string]any{"kind": "file", "name": "settings", "target": "conf/local.env", "value": "PASSWORD=" + file + "\n", "project_id": project})
	addSecret(h, "/me/secrets", map[string]any{"kind": "file", "name": "npm", "target": "~/.npmrc", "value": "//registry/:_authToken=" + home + "\n"})
	if first.LastFour != "team" {
		t.Errorf("recognised by %q", first.LastFour)
	}
	ws := h.Workspace(project, "w")

	show := `printf 'v=%s.\n' "$DEPLOY_TOKEN"; printf "$DEPLOY_TOKEN" | cut -c1-7 | tr -d '\n'; sleep 0.2; printf "$DEPLOY_TOKEN" | cut -c8-; cat conf/local.env "$HOME/.npmrc"; stat -c %a conf/local.env
		printf '%s' "$DEPLOY_TOKEN" | base64; git add -A; git status --short; echo ready; read x; printf 'again %s ` + later + ` %s\n' "$DEPLOY_TOKEN" "$x"`
	run := h.Run(ws.ID, "sh", "-c", show)
	h.Wait("the session shows what it has", func() bool { return bytes.Contains(h.Output(run.ID, 0), []byte("ready")) })
	h.Kill() // and what goes on is masked by the next server
	h.Boot()
	h.Wait("the session is there again", func() bool {
		var s testkit.Session
		h.API("GET", "/sessions/"+run.ID, nil, &s)
		return s.State != "starting"
	})
	var all struct{ Items []secret }
	h.API("GET", teamPath, nil, &all)
	if len(all.Items) != 1 || all.Items[0].Sessions != 1 || len(all.Items[0].Outdated) != 0 {
		t.Errorf("who uses it: %+v", all.Items)
	}
	h.API("PATCH", "/secrets/"+first.ID, map[string]any{"value": later}, &first)
	if len(first.Outdated) != 1 || first.Outdated[0].SessionID != run.ID {
		t.Errorf("who has the value before: %+v", first.Outdated)
	}
	// The file is nobody's to read, nor is it a change.
	h.Refused(403, "secret_file", "GET", testkit.FilePath(ws.ID, "conf/local.env"), nil)
	if c := h.Changes(ws.ID); len(c.Items) != 0 {
		t.Errorf("git sees %+v", c.Items)
	}
	h.API("POST", "/sessions/"+run.ID+"/input", map[string]any{"text": "typed\r"}, nil)
	h.Ended(run.ID)
	out := string(h.Output(run.ID, 0))
	for _, value := range []string{env, env[7:], file, home, later, "c3dvcmRmaXNo"} {
		if strings.Contains(out, value) {
			t.Errorf("the output shows %q", value)
		}
	}
	for _, want := range []string{"v=" + strings.Repeat("*", len(env)) + ".", "600", "again " + strings.Repeat("*", len(env)) + " " + strings.Repeat("*", len(later)) + " typed"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s", out)
	}
	// Commands get the new value and mask it; the files went with the session.
	var cmd struct{ Stdout, Stderr string }
	h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": `echo "<$DEPLOY_TOKEN>"; test "$DEPLOY_TOKEN" = ` + later + ` && echo same; ls conf "$HOME/.npmrc"`}, &cmd)
	if !strings.Contains(cmd.Stdout, "<"+strings.Repeat("*", len(later))+">") || !strings.Contains(cmd.Stdout, "same") {
		t.Errorf("command: %q", cmd.Stdout)
	}
	h.Wait("the files are gone", func() bool {
		h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": `ls -a conf "$HOME" 2>&1`}, &cmd)
		return !strings.Contains(cmd.Stdout, "local.env") && !strings.Contains(cmd.Stdout, ".npmrc")
	})
	h.Terminate()
	nothingOnDisk(t, h, env, file, home) // what became a secret later stood in what a person typed before
	h.Boot()
}

// nothingOnDisk looks for values in everything the server keeps, but for the homes and worktrees that are the agents'.
func nothingOnDisk(t *testing.T, h *testkit.Instance, values ...string) {
	t.Helper()
	err := filepath.WalkDir(h.DataDir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, v := range values {
			if bytes.Contains(b, []byte(v)) {
				t.Errorf("%s holds %q", path, v)
			}
		}
		return nil
	})
	must(t, err)
	for _, v := range values {
		if strings.Contains(h.Log(), v) {
			t.Errorf("the log holds %q", v)
		}
	}
}

// kill -9 of the change of the key at every point: the next start, or the next change, ends it or forgets it, and everything that is
// kept sealed is read with the key that is in its place.
func TestKeyRotationKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "w")
	const value = "sealed-with-several-keys"
	addSecret(h, "/teams/"+h.Team+"/secrets", map[string]any{"kind": "env", "name": "KEPT", "value": value})
	run := h.Run(ws.ID, "sh", "-c", `while read x; do printf 'said %s %s\n' "$x" "$KEPT"; done`)
	key := func() []byte {
		b, err := os.ReadFile(filepath.Join(h.DataDir(), "secret.key"))
		must(t, err)
		return b
	}
	check := func(what string) {
		t.Helper()
		var cmd struct{ Stdout string }
		h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": `test "$KEPT" = ` + value + ` && echo same`}, &cmd)
		if !strings.Contains(cmd.Stdout, "same") {
			t.Fatalf("%s: the secret cannot be read: %q", what, cmd.Stdout)
		}
		h.API("POST", "/sessions/"+run.ID+"/input", map[string]any{"text": what + "\r"}, nil)
		h.Wait("the session says it", func() bool {
			return bytes.Contains(h.Output(run.ID, 0), []byte("said "+what+" "+strings.Repeat("*", len(value))))
		})
		if bytes.Contains(h.Output(run.ID, 0), []byte(value)) {
			t.Fatalf("%s: the session's masks were forgotten", what)
		}
		if _, err := os.Lstat(filepath.Join(h.DataDir(), "secret.key.next")); err == nil {
			t.Errorf("%s: a key is left beside", what)
		}
	}
	if out, err := h.AdminWith(nil, "rotate-key", "--yes"); err == nil || !strings.Contains(out, "Stop it first") {
		t.Errorf("beside a running server: %v %s", err, out)
	}
	for _, at := range failpoint.OfKey {
		h.Terminate()
		before := key()
		_, err := h.AdminWith([]string{"PARAWORK_KILL_AT=" + string(at)}, "rotate-key", "--yes")
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("at %s: %v", at, err)
		}
		h.Boot()
		if changed := !bytes.Equal(before, key()); changed != (at != failpoint.KeyMade) {
			t.Errorf("at %s: another key is in its place: %v", at, changed)
		}
		check(strings.ReplaceAll(string(at), ".", "-"))
	}
	h.Terminate()
	before := key()
	out, err := h.AdminWith(nil, "rotate-key", "--yes")
	if err != nil || bytes.Equal(before, key()) {
		t.Fatalf("%v %s", err, out)
	}
	h.Boot()
	check("after")
	// What the old key alone opens is nothing: with it in place, the server does not start.
	h.Terminate()
	now := key()
	must(t, os.WriteFile(filepath.Join(h.DataDir(), "secret.key"), before, 0o600))
	if said := h.Refuses(); !strings.Contains(said, "is not the key the database is sealed with") || !strings.Contains(said, "rotate-key --lost") {
		t.Errorf("with the old key: %s", said)
	}
	must(t, os.WriteFile(filepath.Join(h.DataDir(), "secret.key"), now, 0o600))
	h.Boot()
}

// Without its key, or with another one, the server refuses to start, makes no key and changes nothing; with the key back all is as it was; and
// `rotate-key --lost` goes on without it: people enter again what it lists, agents go on, and the audit begins anew.
func TestAServerWhoseKeyIsLost(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "w")
	addSecret(h, "/teams/"+h.Team+"/secrets", map[string]any{"kind": "env", "name": "KEPT", "value": "sealed-with-a-key"})
	echo := h.Run(ws.ID, "sh", "-c", `while read x; do echo said $x; done`)
	path := filepath.Join(h.DataDir(), "secret.key")
	read := func() []byte {
		b, err := os.ReadFile(path)
		must(t, err)
		return b
	}
	key := read()
	exec := func() (out string) {
		var cmd struct{ Stdout string }
		h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "echo value=$KEPT"}, &cmd)
		return cmd.Stdout
	}
	h.Terminate()
	must(t, os.Remove(path))
	for range 2 {
		if said := h.Refuses(); !strings.Contains(said, "secret.key is missing") || !strings.Contains(said, "Restore it from a backup") {
			t.Errorf("without the key: %s", said)
		}
	}
	if out, err := h.AdminWith(nil, "list-users"); err == nil || !strings.Contains(out, "secret.key is missing") {
		t.Errorf("a command without the key: %v %s", err, out)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Fatal("a key was made beside a database that another one sealed")
	}
	must(t, os.WriteFile(path, bytes.Repeat([]byte{7}, 32), 0o600))
	if said := h.Refuses(); !strings.Contains(said, "is not the key the database is sealed with: it opens 0 of") {
		t.Errorf("with another key: %s", said)
	}
	must(t, os.WriteFile(path, key, 0o600))
	h.Boot()
	if out := exec(); !strings.Contains(out, "value=*") && !strings.Contains(out, "value=sealed") {
		t.Errorf("with the key back: %q", out)
	}
	if out, err := h.AdminWith(nil, "rotate-key", "--lost"); err == nil || !strings.Contains(out, "Stop it first") {
		t.Errorf("beside a running server: %v %s", err, out)
	}
	h.Terminate()
	if out, err := h.AdminWith(nil, "rotate-key", "--lost", "--yes"); err == nil || !strings.Contains(out, "nothing is lost") {
		t.Errorf("with the right key: %v %s", err, out)
	}
	must(t, os.Remove(path))
	out, err := h.AdminWith(nil, "rotate-key", "--lost")
	if err == nil || !strings.Contains(out, "secret KEPT (env)") || !strings.Contains(out, "audit's seals") || !strings.Contains(out, "Nothing was changed") {
		t.Errorf("asked what is lost: %v %s", err, out)
	}
	if said := h.Refuses(); !strings.Contains(said, "secret.key is missing") {
		t.Errorf("after a look: %s", said)
	}
	if out, err := h.AdminWith(nil, "rotate-key", "--lost", "--yes"); err != nil || !strings.Contains(out, "deleted ") {
		t.Fatalf("%v %s", err, out)
	}
	h.Boot()
	h.Refused(503, "secret_unreadable", "POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": "true"})
	h.API("POST", "/sessions/"+echo.ID+"/input", map[string]any{"text": "on\r"}, nil)
	h.Wait("the agent goes on", func() bool { return bytes.Contains(h.Output(echo.ID, 0), []byte("said on")) })
	var found struct {
		Items []struct {
			Action string
			Actor  struct{ Kind string }
		}
	}
	h.API("GET", "/teams/"+h.Team+"/audit?action=audit.key_lost", nil, &found)
	if len(found.Items) != 1 {
		t.Errorf("the audit says %+v", found)
	}
	doctor := h.Doctor("--audit")
	for _, want := range []string{"which the database is sealed with", "sealed with a key that was lost and cannot be checked; after them nothing changed"} {
		if !strings.Contains(doctor, want) {
			t.Errorf("the doctor does not say %q:\n%s", want, doctor)
		}
	}
	if strings.Contains(doctor, "FAIL  audit") {
		t.Errorf("the doctor fails:\n%s", doctor)
	}
}
