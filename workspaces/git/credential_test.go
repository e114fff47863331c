package git_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// The credential in the URL becomes the project's own, and is in no file, row, argument or environment of git.
func TestCredentialOfAURLIsStoredAsASecret(t *testing.T) {
	t.Parallel()
	root, advertised := t.TempDir(), t.TempDir()
	f := wstest.NewForge(t, root, "me", "hunt/er2-long-token")
	keys := &wstest.Vault{Kept: map[string]secrets.Credential{}}
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) {
		c.Credentials, c.Env = keys, wstest.Trusting(t, f)
		c.GitPath = wstest.Program(t, "#!/bin/sh\n{ echo \"$*\"; env; } >>"+advertised+"/all\nexec git \"$@\"\n")
	})
	work := wstest.BareRepo(t, h, root, "a.git")
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "https://me:hunt%2Fer2-long-token@" + f.Host() + "/a.git"})
	wstest.Must(t, err)
	if p = h.Cloned(p.ID); p.State != workspaces.ProjectReady {
		t.Fatalf("%s: %s", p.State, p.StateReason)
	}
	if p.Source != f.URL+"/a.git" || keys.Kept[p.ID+" "+f.Host()].Token != "hunt/er2-long-token" {
		t.Errorf("source %q, kept %v", p.Source, keys.Kept)
	}
	if s := wstest.Read(t, advertised, "all") + wstest.Read(t, p.GitDir, "config"); strings.Contains(s, "hunt") || strings.Contains(s, base64.StdEncoding.EncodeToString([]byte("me:hunt"))[:8]) {
		t.Error("the credential shows in git's arguments, environment or config")
	}
	if wstest.Exists(filepath.Dir(p.GitDir), ".git-credentials") {
		t.Error("the credential lies in a file")
	}

	// One branch is created, one moves and one is deleted.
	wstest.Git(t, work, "push", "--quiet", "forge", "HEAD:refs/heads/goes")
	if _, err := h.S.Ingest.Branches(t.Context(), p.ID, true); err != nil {
		t.Fatal(err)
	}
	wstest.Write(t, work, "more", "1")
	head := wstest.CommitAll(t, work, "more")
	wstest.Git(t, work, "tag", "v1")
	wstest.Git(t, work, "push", "--quiet", "forge", "HEAD:refs/heads/main", "HEAD:refs/heads/goes/deeper", ":refs/heads/goes", "v1")
	_, err = h.S.Ingest.Branches(t.Context(), p.ID, true)
	wstest.Must(t, err)
	refs := wstest.Git(t, p.GitDir, "for-each-ref", "--format=%(refname) %(objectname)")
	for _, want := range []string{"refs/remotes/origin/main " + head, "refs/remotes/origin/goes/deeper " + head, "refs/tags/v1 " + head} {
		if !strings.Contains(refs, want) {
			t.Errorf("missing %q in\n%s", want, refs)
		}
	}
	if strings.Contains(refs, "refs/remotes/origin/goes "+head[:3]) || strings.Contains(refs, "refs/parawork/have") {
		t.Errorf("too much is left:\n%s", refs)
	}
}

// Whatever an agent writes into the repository's config, the token is sent to its own host only.
func TestConfigOfTheRepositoryDoesNotSendTheCredentialElsewhere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, evil := wstest.NewForge(t, root, "me", "the-token-of-the-project"), wstest.NewForge(t, root, "nobody", "nothing")
	keys := &wstest.Vault{Kept: map[string]secrets.Credential{}}
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.Credentials, c.Env = keys, wstest.Trusting(t, f) })
	work := wstest.BareRepo(t, h, root, "a.git")
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "https://me:the-token-of-the-project@" + f.Host() + "/a.git"})
	wstest.Must(t, err)
	p = h.Cloned(p.ID)
	pwned := filepath.Join(t.TempDir(), "pwned")
	for _, set := range [][2]string{
		{"url." + evil.URL + "/.insteadOf", f.URL + "/"}, {"http.sslVerify", "false"}, {"http." + f.URL + ".sslVerify", "false"},
		{"http.curloptResolve", f.Host() + ":127.0.0.1"}, {"http.proxy", evil.URL}, {"http." + f.URL + ".proxy", evil.URL}, {"http.proxySSLVerify", "false"},
		{"credential.helper", "!touch " + pwned}, {"credential." + f.URL + ".helper", "!touch " + pwned}, {"core.askPass", "touch " + pwned},
		{"remote.origin.url", evil.URL + "/a.git"}, {"remote.origin.proxy", evil.URL}, {"core.sshCommand", "touch " + pwned}, {"core.hooksPath", filepath.Dir(pwned)},
		{"remote.origin.uploadpack", "touch " + pwned}, {"http." + f.URL + ".extraHeader", "X-Agent: was here"}, {"http.followRedirects", "true"},
	} {
		wstest.Git(t, p.GitDir, "config", set[0], set[1])
	}
	wstest.Write(t, work, "more", "1")
	head := wstest.CommitAll(t, work, "more")
	wstest.Git(t, work, "push", "--quiet", "forge", "HEAD:refs/heads/main")
	if _, err := h.S.Ingest.Branches(t.Context(), p.ID, true); err != nil {
		t.Fatal(err)
	}
	if got := wstest.Git(t, p.GitDir, "rev-parse", "refs/remotes/origin/main"); !strings.Contains(got, head) {
		t.Errorf("fetched %s, want %s", got, head)
	}
	if s := evil.Heard(); s != "" {
		t.Errorf("the other host received %q", s)
	}
	if wstest.Exists(filepath.Dir(pwned), "pwned") {
		t.Error("a program of the config's was run")
	}
}

// A host that redirects git to another does not get the credential sent there, nor does the same name at another port.
func TestRedirectDoesNotTakeTheCredentialAlong(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, evil := wstest.NewForge(t, root, "me", "the-token-of-the-project"), wstest.NewForge(t, root, "nobody", "nothing")
	keys := &wstest.Vault{Kept: map[string]secrets.Credential{}}
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.Credentials, c.Env = keys, wstest.Trusting(t, f) })
	wstest.BareRepo(t, h, root, "a.git")
	if a, b := f.Certificate(), evil.Certificate(); !a.Equal(b) {
		t.Fatal("the other host is not trusted: the test would prove nothing")
	}
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "https://me:the-token-of-the-project@" + f.Host() + "/a.git"})
	wstest.Must(t, err)
	p = h.Cloned(p.ID)
	asked := func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, evil.URL+r.URL.RequestURI(), http.StatusFound)
		return true
	}
	for _, turn := range []func(http.ResponseWriter, *http.Request) bool{asked, func(w http.ResponseWriter, r *http.Request) bool {
		if _, _, proven := r.BasicAuth(); proven { // only once it has the credential
			return asked(w, r)
		}
		return false
	}} {
		f.Does(turn)
		before := evil.Asked()
		_, _ = h.S.Ingest.Branches(t.Context(), p.ID, true) // the result is in the answer
		if s := evil.Heard(); s != "" {
			t.Fatalf("the other host received %q", s)
		}
		if evil.Asked() == before {
			t.Fatal("the other host was not asked: the test proves nothing")
		}
	}
}

// A host's error messages are masked.
func TestErrorsDoNotShowTheCredential(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f := wstest.NewForge(t, root, "me", "the-token-of-the-project")
	keys := &wstest.Vault{Kept: map[string]secrets.Credential{}}
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.Credentials, c.Env = keys, wstest.Trusting(t, f) })
	wstest.BareRepo(t, h, root, "a.git")
	f.Does(func(w http.ResponseWriter, r *http.Request) bool {
		u, p, ok := r.BasicAuth()
		if ok {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "no entry for %s with %s or %s\n", u, p, r.Header.Get("Authorization"))
		}
		return ok
	})
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "https://me:the-token-of-the-project@" + f.Host() + "/a.git"})
	wstest.Must(t, err)
	p = h.Cloned(p.ID)
	if p.State != workspaces.ProjectFailed || !strings.Contains(p.StateReason, "no entry for me") {
		t.Fatalf("%s: %q", p.State, p.StateReason)
	}
	if strings.Contains(p.StateReason, "the-token") || strings.Contains(p.StateReason, base64.StdEncoding.EncodeToString([]byte("me:the-token-of-the-project"))) {
		t.Errorf("the reason shows it: %q", p.StateReason)
	}
}

// Credentials that an earlier version kept in files become secrets at the next start.
func TestCredentialFilesAreMoved(t *testing.T) {
	t.Parallel()
	keys := &wstest.Vault{Kept: map[string]secrets.Credential{}}
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.Credentials = keys })
	p := h.UrlProject(h.Repo("r"))
	dir := filepath.Join(h.Data, "projects", p.ID)
	wstest.Write(t, dir, ".git-credentials", "https://me:hunt%2Fer2@example.invalid:8443\n")
	wstest.Write(t, filepath.Join(h.Data, "projects", "prj_gone"), ".git-credentials", "https://me:x@example.invalid\n")
	h.Stop()
	h.Start()
	if got := keys.Kept[p.ID+" example.invalid:8443"]; got.Username != "me" || got.Token != "hunt/er2" || len(keys.Kept) != 1 {
		t.Errorf("kept %+v", keys.Kept)
	}
	if wstest.Exists(dir, ".git-credentials") || wstest.Exists(filepath.Join(h.Data, "projects", "prj_gone"), ".git-credentials") {
		t.Error("a file is left")
	}
}

func TestTokensAreForHTTPSAlone(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.Protocols = []string{"http", "https", "ssh"} })
	for _, u := range []string{"http://me:token@example.invalid/a.git", "ssh://me:token@example.invalid/a.git"} {
		if _, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: u}); fault.CodeOf(err) != "url_invalid" {
			t.Errorf("%s: %v", u, err)
		}
	}
}
