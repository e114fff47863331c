package projects_test

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// connector is this very program under that name.
func connector(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	wstest.Must(t, err)
	at := filepath.Join(t.TempDir(), wstest.ConnectorName)
	wstest.Must(t, os.Symlink(self, at))
	return at
}

// guarded makes an Env that may reach only these non-public addresses.
func guarded(t *testing.T, env func(string) string, allowed ...string) *wstest.Env {
	t.Helper()
	g := &egress.Guard{}
	for _, a := range allowed {
		e, err := egress.ParseException(a)
		wstest.Must(t, err)
		g.Allow = append(g.Allow, e)
	}
	return wstest.SQLiteEnv(t, func(c *assembly.Config) { c.Outgoing, c.Connector, c.Env = g, connector(t), env })
}

// listener counts connections, and says nothing.
func listener(t *testing.T) (address string, hits *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	wstest.Must(t, err)
	t.Cleanup(func() { l.Close() })
	hits = &atomic.Int32{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), hits
}

// clone makes a project of a URL and returns what became of it.
func clone(h *wstest.Env, t *testing.T, raw string) (workspaces.Project, error) {
	t.Helper()
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: raw})
	if err != nil {
		return p, err
	}
	return h.Cloned(p.ID), nil
}

// ASVS 1.3.6: git reaches nothing inside the server's own network, by any protocol, and the error says so.
func TestASVS_1_3_6_GitReachesNothingInside(t *testing.T) {
	t.Parallel()
	at, hits := listener(t)
	_, port, err := net.SplitHostPort(at)
	wstest.Must(t, err)
	h := guarded(t, os.Getenv)
	for _, raw := range []string{"https://" + at + "/a.git", "ssh://git@" + at + "/a.git", "git://" + at + "/a.git", "https://[::ffff:127.0.0.1]:" + port + "/a.git", "https://169.254.169.254/a.git"} {
		if _, err := clone(h, t, raw); fault.CodeOf(err) != "url_not_public" {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, raw := range []string{"https://localhost:" + port + "/a.git", "ssh://git@localhost:" + port + "/a.git", "git://localhost:" + port + "/a.git"} {
		p, err := clone(h, t, raw)
		if err != nil || p.State != workspaces.ProjectFailed || !strings.Contains(p.StateReason, "does not reach out to") || !strings.Contains(p.StateReason, "outgoing.allow") {
			t.Errorf("%s: %s %q %v", raw, p.State, p.StateReason, err)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}
	for _, raw := range []string{"ssh://git@$(touch x)/a.git", "ssh://git@a$(id)b/a.git", "ssh://git@'x'/a.git", "https://a;b/a.git"} {
		if _, err := clone(h, t, raw); fault.CodeOf(err) != "url_invalid" {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// Addresses that an operator allows are reachable by each protocol.
func TestGitReachesWhatIsAllowed(t *testing.T) {
	t.Parallel()
	at, hits := listener(t)
	h := guarded(t, os.Getenv, at)
	for i, raw := range []string{"ssh://git@" + at + "/a.git", "git://" + at + "/a.git", "https://" + at + "/a.git"} {
		p, err := clone(h, t, raw)
		if err != nil || p.State != workspaces.ProjectFailed || strings.Contains(p.StateReason, "does not reach out to") {
			t.Errorf("%s: %s %q %v", raw, p.State, p.StateReason, err)
		}
		if n := hits.Load(); int(n) <= i {
			t.Errorf("%s: %d connections were made", raw, n)
		}
	}
}

// An allowed host cannot redirect inside: not by redirecting git, at the first request or later, nor by the repository's config.
func TestRedirectsDoNotLeadGitInside(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f := wstest.NewForge(t, root, "me", "the-token-of-the-project")
	at, hits := listener(t)
	env := wstest.Trusting(t, f)
	h := guarded(t, env, f.Host())
	work := wstest.BareRepo(t, h, root, "a.git")
	// Credentials are not what this is about: the host lets everybody in.
	open := func(w http.ResponseWriter, r *http.Request) bool { r.SetBasicAuth(f.User, f.Token); return false }
	f.Does(open)
	p, err := clone(h, t, f.URL+"/a.git")
	if err != nil || p.State != workspaces.ProjectReady {
		t.Fatalf("%s %s %v", p.State, p.StateReason, err)
	}
	for _, set := range [][2]string{{"http.proxy", ""}, {"http." + f.URL + "/.proxy", "http://" + at}, {"remote.origin.proxy", ""}, {"url.https://" + at + "/.insteadOf", f.URL + "/"},
		{"http.curloptResolve", f.Host() + ":127.0.0.1"}, {"core.gitProxy", "none"}, {"core.sshCommand", "ssh"}, {"remote.origin.url", "https://" + at + "/a.git"}} {
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
	f.Does(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "https://"+at+r.URL.RequestURI(), http.StatusFound)
		return true
	})
	bs, err := h.S.Ingest.Branches(t.Context(), p.ID, true)
	if fault.CodeOf(err) != "url_not_public" && !strings.Contains(bs.FetchError, "does not reach out to") {
		t.Errorf("sent on: %v %+v", err, bs)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections were made inside", n)
	}

	// The origin of a folder of the server is checked the same way.
	folder := h.Repo("folder")
	wstest.Git(t, folder, "remote", "add", "origin", "https://localhost:"+strings.Split(at, ":")[1]+"/a.git")
	wstest.Git(t, folder, "config", "http.proxy", "")
	q, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "path", Path: folder})
	wstest.Must(t, err)
	bs, err = h.S.Ingest.Branches(t.Context(), q.ID, true)
	if fault.CodeOf(err) != "url_not_public" && !strings.Contains(bs.FetchError, "does not reach out to") {
		t.Errorf("a folder's origin: %v %+v", err, bs)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections were made inside", n)
	}
}

// The tunnel's secret is in no argument of git, and in no message of git.
func TestProxyShowsNoSecret(t *testing.T) {
	t.Parallel()
	reported := t.TempDir()
	at, _ := listener(t)
	g := &egress.Guard{}
	e, err := egress.ParseException(at)
	wstest.Must(t, err)
	g.Allow = append(g.Allow, e)
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) {
		c.Outgoing, c.Connector = g, connector(t)
		c.GitPath = wstest.Program(t, "#!/bin/sh\necho \"$*\" >>"+reported+"/args\nenv >>"+reported+"/env\nexec git \"$@\"\n")
	})
	p, err := clone(h, t, "https://"+at+"/a.git")
	wstest.Must(t, err)
	env := wstest.Read(t, reported, "env")
	i := strings.Index(env, egress.TunnelEnv+"=")
	if i < 0 {
		t.Fatal("git was given no way out")
	}
	line, _, _ := strings.Cut(env[i+len(egress.TunnelEnv)+1:], "\n")
	u, err := url.Parse(line)
	wstest.Must(t, err)
	secret, _ := u.User.Password()
	if secret == "" || strings.Contains(wstest.Read(t, reported, "args"), secret) || strings.Contains(p.StateReason, secret) {
		t.Errorf("the secret shows: %q", p.StateReason)
	}
}
