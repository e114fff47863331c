package workspaces_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// vault keeps credentials by project and host.
type vault struct {
	mu   sync.Mutex
	kept map[string]secrets.Credential
}

func (v *vault) Credential(_ context.Context, _, projectID, host string) (secrets.Credential, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok := v.kept[projectID+" "+host]
	return c, ok, nil
}

func (v *vault) CredentialFor(ctx context.Context, userID, teamID, projectID, host string) (secrets.Credential, bool, error) {
	if c, ok, err := v.Credential(ctx, teamID, userID, host); ok || err != nil {
		return c, ok, err
	}
	return v.Credential(ctx, teamID, projectID, host)
}

func (v *vault) KeepCredential(_ context.Context, _, projectID, host, username, token, _ string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, there := v.kept[projectID+" "+host]; !there {
		v.kept[projectID+" "+host] = secrets.Credential{Host: host, Username: username, Token: token}
	}
	return nil
}

func (v *vault) put(projectID string, c secrets.Credential) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept[projectID+" "+c.Host] = c
}

// forge is a git host over https that asks for a user name and a token.
type forge struct {
	*httptest.Server
	user, token string

	mu   sync.Mutex
	seen []string // Authorization headers
	hits int
	turn func(w http.ResponseWriter, r *http.Request) bool
}

func (f *forge) host() string { return strings.TrimPrefix(f.URL, "https://") }

func (f *forge) heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.seen, "\n")
}

func (f *forge) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

func (f *forge) does(turn func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn = turn
}

// newForge serves the bare repositories below root.
func newForge(t *testing.T, root, user, token string) *forge {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	must(t, err)
	back := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	f := &forge{user: user, token: token}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		turn := f.turn
		f.hits++
		if h := r.Header.Get("Authorization"); h != "" {
			f.seen = append(f.seen, h)
		}
		f.mu.Unlock()
		if turn != nil && turn(w, r) {
			return
		}
		if u, p, ok := r.BasicAuth(); !ok || u != f.user || p != f.token {
			w.Header().Set("WWW-Authenticate", `Basic realm="forge"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		back.ServeHTTP(w, r)
	}))
	f.Config.ErrorLog = nil
	t.Cleanup(f.Close)
	return f
}

// trusting is an environment in which git trusts a forge's certificate.
func trusting(t *testing.T, f *forge) func(string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}), 0o600))
	return func(name string) string {
		switch name {
		case "GIT_SSL_CAINFO":
			return file
		case "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY":
			return ""
		}
		return os.Getenv(name)
	}
}

// bareRepo makes a bare repository below root with one commit, and returns a clone to push more from.
func bareRepo(t *testing.T, h *house, root, name string) (work string) {
	t.Helper()
	work = h.repo("work-" + name)
	git(t, root, "clone", "--quiet", "--bare", work, filepath.Join(root, name))
	git(t, work, "remote", "add", "forge", filepath.Join(root, name))
	return work
}

// What stood in the URL becomes the project's own credential, and is in no file, row, argument or environment of git.
func TestCredentialOfAURLIsKeptAsASecret(t *testing.T) {
	t.Parallel()
	root, told := t.TempDir(), t.TempDir()
	f := newForge(t, root, "me", "hunt/er2-long-token")
	keys := &vault{kept: map[string]secrets.Credential{}}
	h := sqliteHouse(t, func(c *workspaces.Config) {
		c.Credentials, c.Env = keys, trusting(t, f)
		c.GitPath = program(t, "#!/bin/sh\n{ echo \"$*\"; env; } >>"+told+"/all\nexec git \"$@\"\n")
	})
	work := bareRepo(t, h, root, "a.git")
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "https://me:hunt%2Fer2-long-token@" + f.host() + "/a.git"})
	must(t, err)
	if p = h.cloned(p.ID); p.State != workspaces.ProjectReady {
		t.Fatalf("%s: %s", p.State, p.StateReason)
	}
	if p.Source != f.URL+"/a.git" || keys.kept[p.ID+" "+f.host()].Token != "hunt/er2-long-token" {
		t.Errorf("source %q, kept %v", p.Source, keys.kept)
	}
	if s := read(t, told, "all") + read(t, p.GitDir, "config"); strings.Contains(s, "hunt") || strings.Contains(s, base64.StdEncoding.EncodeToString([]byte("me:hunt"))[:8]) {
		t.Error("the credential shows in git's arguments, environment or config")
	}
	if exists(filepath.Dir(p.GitDir), ".git-credentials") {
		t.Error("the credential lies in a file")
	}

	// A branch that comes, one that moves and one that goes.
	git(t, work, "push", "--quiet", "forge", "HEAD:refs/heads/goes")
	if _, err := h.s.Branches(t.Context(), p.ID, true); err != nil {
		t.Fatal(err)
	}
	write(t, work, "more", "1")
	head := commitAll(t, work, "more")
	git(t, work, "tag", "v1")
	git(t, work, "push", "--quiet", "forge", "HEAD:refs/heads/main", "HEAD:refs/heads/goes/deeper", ":refs/heads/goes", "v1")
	_, err = h.s.Branches(t.Context(), p.ID, true)
	must(t, err)
	refs := git(t, p.GitDir, "for-each-ref", "--format=%(refname) %(objectname)")
	for _, want := range []string{"refs/remotes/origin/main " + head, "refs/remotes/origin/goes/deeper " + head, "refs/tags/v1 " + head} {
		if !strings.Contains(refs, want) {
			t.Errorf("missing %q in\n%s", want, refs)
		}
	}
	if strings.Contains(refs, "refs/remotes/origin/goes "+head[:3]) || strings.Contains(refs, "refs/parawork/have") {
		t.Errorf("too much is left:\n%s", refs)
	}
}

// program writes a program to be run as git.
func program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	syscall.ForkLock.RLock() // a program that is forked just now would keep it open for writing
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// Whatever an agent writes into the repository's config, the token goes to its own host, and nowhere else.
func TestConfigOfTheRepositoryDoesNotSendTheCredentialElsewhere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, evil := newForge(t, root, "me", "the-token-of-the-project"), newForge(t, root, "nobody", "nothing")
	keys := &vault{kept: map[string]secrets.Credential{}}
	h := sqliteHouse(t, func(c *workspaces.Config) { c.Credentials, c.Env = keys, trusting(t, f) })
	work := bareRepo(t, h, root, "a.git")
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "https://me:the-token-of-the-project@" + f.host() + "/a.git"})
	must(t, err)
	p = h.cloned(p.ID)
	pwned := filepath.Join(t.TempDir(), "pwned")
	for _, set := range [][2]string{
		{"url." + evil.URL + "/.insteadOf", f.URL + "/"}, {"http.sslVerify", "false"}, {"http." + f.URL + ".sslVerify", "false"},
		{"http.curloptResolve", f.host() + ":127.0.0.1"}, {"http.proxy", evil.URL}, {"http." + f.URL + ".proxy", evil.URL}, {"http.proxySSLVerify", "false"},
		{"credential.helper", "!touch " + pwned}, {"credential." + f.URL + ".helper", "!touch " + pwned}, {"core.askPass", "touch " + pwned},
		{"remote.origin.url", evil.URL + "/a.git"}, {"remote.origin.proxy", evil.URL}, {"core.sshCommand", "touch " + pwned}, {"core.hooksPath", filepath.Dir(pwned)},
		{"remote.origin.uploadpack", "touch " + pwned}, {"http." + f.URL + ".extraHeader", "X-Agent: was here"}, {"http.followRedirects", "true"},
	} {
		git(t, p.GitDir, "config", set[0], set[1])
	}
	write(t, work, "more", "1")
	head := commitAll(t, work, "more")
	git(t, work, "push", "--quiet", "forge", "HEAD:refs/heads/main")
	if _, err := h.s.Branches(t.Context(), p.ID, true); err != nil {
		t.Fatal(err)
	}
	if got := git(t, p.GitDir, "rev-parse", "refs/remotes/origin/main"); !strings.Contains(got, head) {
		t.Errorf("fetched %s, want %s", got, head)
	}
	if s := evil.heard(); s != "" {
		t.Errorf("the other host was told %q", s)
	}
	if exists(filepath.Dir(pwned), "pwned") {
		t.Error("a program of the config's was run")
	}
}

// A host that sends git on to another does not get the credential sent there, nor does the same name at another port.
func TestRedirectDoesNotTakeTheCredentialAlong(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, evil := newForge(t, root, "me", "the-token-of-the-project"), newForge(t, root, "nobody", "nothing")
	keys := &vault{kept: map[string]secrets.Credential{}}
	h := sqliteHouse(t, func(c *workspaces.Config) { c.Credentials, c.Env = keys, trusting(t, f) })
	bareRepo(t, h, root, "a.git")
	if a, b := f.Certificate(), evil.Certificate(); !a.Equal(b) {
		t.Fatal("the other host is not trusted: the test would prove nothing")
	}
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "https://me:the-token-of-the-project@" + f.host() + "/a.git"})
	must(t, err)
	p = h.cloned(p.ID)
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
		f.does(turn)
		before := evil.asked()
		_, _ = h.s.Branches(t.Context(), p.ID, true) // what came of it is told in the answer
		if s := evil.heard(); s != "" {
			t.Fatalf("the other host was told %q", s)
		}
		if evil.asked() == before {
			t.Fatal("the other host was not asked: the test proves nothing")
		}
	}
}

// What a host says back in its errors is masked.
func TestErrorsDoNotShowTheCredential(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f := newForge(t, root, "me", "the-token-of-the-project")
	keys := &vault{kept: map[string]secrets.Credential{}}
	h := sqliteHouse(t, func(c *workspaces.Config) { c.Credentials, c.Env = keys, trusting(t, f) })
	bareRepo(t, h, root, "a.git")
	f.does(func(w http.ResponseWriter, r *http.Request) bool {
		u, p, ok := r.BasicAuth()
		if ok {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "no entry for %s with %s or %s\n", u, p, r.Header.Get("Authorization"))
		}
		return ok
	})
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "https://me:the-token-of-the-project@" + f.host() + "/a.git"})
	must(t, err)
	p = h.cloned(p.ID)
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
	keys := &vault{kept: map[string]secrets.Credential{}}
	h := sqliteHouse(t, func(c *workspaces.Config) { c.Credentials = keys })
	p := h.urlProject(h.repo("r"))
	dir := filepath.Join(h.data, "projects", p.ID)
	write(t, dir, ".git-credentials", "https://me:hunt%2Fer2@example.invalid:8443\n")
	write(t, filepath.Join(h.data, "projects", "prj_gone"), ".git-credentials", "https://me:x@example.invalid\n")
	h.stop()
	h.start()
	if got := keys.kept[p.ID+" example.invalid:8443"]; got.Username != "me" || got.Token != "hunt/er2" || len(keys.kept) != 1 {
		t.Errorf("kept %+v", keys.kept)
	}
	if exists(dir, ".git-credentials") || exists(filepath.Join(h.data, "projects", "prj_gone"), ".git-credentials") {
		t.Error("a file is left")
	}
}

func TestTokensAreForHTTPSAlone(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t, func(c *workspaces.Config) { c.Protocols = []string{"http", "https", "ssh"} })
	for _, u := range []string{"http://me:token@example.invalid/a.git", "ssh://me:token@example.invalid/a.git"} {
		if _, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: u}); fault.CodeOf(err) != "url_invalid" {
			t.Errorf("%s: %v", u, err)
		}
	}
}
