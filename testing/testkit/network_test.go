package testkit_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// site is a server of this machine's that many tools fetch from, and what it was asked for.
type site struct {
	mu    sync.Mutex
	asked []string
	git   http.Handler
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.URL.Path)
	s.mu.Unlock()
	switch {
	case strings.HasPrefix(r.URL.Path, "/repo.git/"):
		s.git.ServeHTTP(w, r)
	case r.URL.Path == "/left-pad":
		_, _ = fmt.Fprint(w, `{"name":"left-pad","dist-tags":{"latest":"9.9.9"},"versions":{"9.9.9":{"name":"left-pad","version":"9.9.9"}}}`)
	case strings.HasPrefix(r.URL.Path, "/simple/"):
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<a href="/files/thing-1.0.tar.gz">thing-1.0.tar.gz</a>`)
	default:
		_, _ = fmt.Fprintf(w, "page %s", r.URL.Path)
	}
}

func (s *site) saw(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.asked, func(p string) bool { return strings.HasPrefix(p, path) })
}

// ownAddress is an address of this machine's that is not its loopback, "" when it has none.
func ownAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr().String()
		}
	}
	return ""
}

// bareRepo makes a repository that git's own server program hands out.
func bareRepo(t *testing.T) http.Handler {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", filepath.Join(dir, "src"))
	git("-C", filepath.Join(dir, "src"), "commit", "-q", "--allow-empty", "-m", "hello from outside")
	git("clone", "-q", "--bare", filepath.Join(dir, "src"), filepath.Join(dir, "repo.git"))
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
}

type networkInfo struct {
	Mode     string
	Enforced *bool
	Names    []struct{ Name, From string }
	Refused  []struct {
		Host, Reason, Explanation string
		Port                      int
		Allowable                 bool
	}
	MayAllow bool `json:"may_allow"`
}

// The whole way: a program in a sandbox without a network, its guest, the gate, the rules, the list of what was refused, and back.
func TestTheOnlyWayOut(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bwrap"); err != nil && os.Getenv("CI") == "" {
		t.Skip("bubblewrap is not installed (apt-get install bubblewrap): how programs leave a sandbox is not tested")
	}
	s := &site{git: bareRepo(t)}
	here := ownAddress()
	if here == "" {
		t.Log("this machine has no address but its loopback: tools are not tried through the proxy")
		here = "127.0.0.1"
	}
	plain, secure := httptest.NewUnstartedServer(s), httptest.NewUnstartedServer(s)
	for _, srv := range []*httptest.Server{plain, secure} {
		l, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		srv.Listener = l
		t.Cleanup(srv.Close)
	}
	plain.Start()
	secure.StartTLS()
	port := func(srv *httptest.Server) string { return fmt.Sprint(srv.Listener.Addr().(*net.TCPAddr).Port) }
	local, far, tls := "127.0.0.1:"+port(plain), here+":"+port(plain), here+":"+port(secure)

	h := testkit.Start(t, fmt.Sprintf(`"sandboxing":{"defaultProvider":"bubblewrap","network":{"allowPrivate":[%q,%q,%q]}}`, local, far, tls))
	project := h.Sample()
	network := func(patch map[string]any) {
		h.API("PATCH", "/projects/"+project, map[string]any{"network": patch}, nil)
	}
	network(map[string]any{"mode": "allow", "allow": []string{local, far, tls}})
	boxed := func(name string) (ws testkit.Workspace) {
		h.API("POST", "/teams/"+h.Team+"/workspaces", map[string]any{"project_id": project, "name": name, "executor": "bubblewrap"}, &ws)
		h.Cleanup(ws.ID)
		h.Wait("the workspace is ready", func() bool { h.API("GET", "/workspaces/"+ws.ID, nil, &ws); return ws.State == "ready" })
		return ws
	}
	ws, neighbour := boxed("Way out"), boxed("Neighbour")
	in := func(ws testkit.Workspace, line string) command {
		t.Helper()
		var c command
		h.API("POST", "/workspaces/"+ws.ID+"/exec", map[string]any{"command": line, "timeout_ms": 60_000}, &c)
		return c
	}
	show := func() (n networkInfo) { h.API("GET", "/workspaces/"+ws.ID+"/network", nil, &n); return n }
	good := func(name, line, want string) {
		t.Helper()
		if c := in(ws, line); c.ExitCode == nil || *c.ExitCode != 0 || !strings.Contains(c.Stdout, want) {
			t.Errorf("%s: exit %v\n%s%s", name, c.ExitCode, c.Stdout, c.Stderr)
		}
	}

	// A service of the server's loopback, found at the same address.
	good("loopback", "curl -sS --retry 20 --retry-connrefused --retry-delay 1 http://"+local+"/same", "page /same")
	// What ordinary tools do, through the proxy variables.
	good("curl", "curl -sS http://"+far+"/plain", "page /plain")
	good("curl, https", "curl -sSk https://"+tls+"/secure", "page /secure")
	good("git", "git clone -q http://"+far+"/repo.git /tmp/cloned && git -C /tmp/cloned log --format=%s", "hello from outside")
	if _, err := os.Stat("/usr/bin/npm"); err == nil {
		good("npm", "npm view left-pad version --registry http://"+far+"/", "9.9.9")
	}
	if _, err := os.Stat("/usr/bin/pip3"); err == nil {
		in(ws, "/usr/bin/pip3 download -q --no-deps -d /tmp/pip --index-url http://"+far+"/simple --trusted-host "+here+" thing")
		if !s.saw("/simple/thing") || !s.saw("/files/thing") {
			t.Error("pip did not get through")
		}
	}
	if n := show(); n.Enforced == nil || !*n.Enforced || len(n.Refused) != 0 {
		t.Errorf("%+v", n)
	}

	// What is not allowed is refused, told inside, and listed.
	if c := in(ws, "curl -sS https://evil.example/ -o /dev/null -w '%{http_connect}'; curl -s http://evil.example/x"); !strings.Contains(c.Stdout, "403") || !strings.Contains(c.Stdout, "evil.example is not on the list") {
		t.Errorf("%+v", c)
	}
	if _, err := os.Stat("/usr/bin/ssh"); err == nil {
		if c := in(ws, "git ls-remote ssh://git@code.example/repo"); !strings.Contains(c.Stderr, "code.example is not on the list") {
			t.Errorf("ssh: %s", c.Stderr)
		}
	}
	var n networkInfo
	h.Wait("what was refused is listed", func() bool { n = show(); return len(n.Refused) >= 2 })
	for _, r := range n.Refused {
		if r.Reason != "not_listed" || !r.Allowable || r.Explanation == "" {
			t.Errorf("%+v", r)
		}
	}
	h.API("POST", "/workspaces/"+ws.ID+"/network/allow", map[string]string{"host": "evil.example"}, nil)
	if c := in(ws, "curl -s http://evil.example/x"); !strings.Contains(c.Stdout, "could not be resolved") {
		t.Errorf("once it is allowed: %+v", c)
	}
	if c := in(neighbour, "curl -s http://evil.example/x"); !strings.Contains(c.Stdout, "not on the list") {
		t.Errorf("the neighbour: %+v", c)
	}

	// There is no other way, and no other's.
	for _, line := range []string{"curl -sS --noproxy '*' -m 5 http://" + far + "/direct", "getent hosts example.com", "ls " + filepath.Join(h.DataDir(), "gates")} {
		if c := in(ws, line); c.ExitCode == nil || *c.ExitCode == 0 {
			t.Errorf("%q worked: %s", line, c.Stdout)
		}
	}
	if c := in(ws, "ls /run/parawork/gate; touch /run/parawork/gate/x"); c.Stdout != "egress\n" || *c.ExitCode == 0 {
		t.Errorf("the gate's folder: %+v", c)
	}

	// A server that dies and comes back is not noticed but as a pause; a project that closes is, at once.
	before := sandboxOf(h, ws.ID)
	h.Kill()
	h.Boot()
	good("after the server's death", "curl -sS http://"+far+"/again", "page /again")
	if after := sandboxOf(h, ws.ID); after != before {
		t.Errorf("another sandbox: %s, then %s", before, after)
	}
	network(map[string]any{"mode": "none"})
	if c := in(ws, "curl -s http://"+far+"/closed"); !strings.Contains(c.Stdout, "no network") {
		t.Errorf("%+v", c)
	}
	h.Refused(409, "network_not_a_list", "POST", "/workspaces/"+ws.ID+"/network/allow", map[string]string{"host": "x.example"})
	network(map[string]any{"mode": "open"})
	good("open", "curl -sSk https://"+tls+"/open", "page /open")
	if c := in(ws, "curl -s http://169.254.169.254/latest"); !strings.Contains(c.Stdout, "private network") {
		t.Errorf("%+v", c)
	}

	// Nothing is left of a gate whose sandbox has ended.
	h.API("POST", "/workspaces/"+ws.ID+"/destroy-sandbox", nil, nil)
	if _, err := os.Stat(filepath.Join(h.DataDir(), "gates", before)); !os.IsNotExist(err) {
		t.Errorf("the gate's folder is still there: %v", err)
	}
	h.API("DELETE", "/workspaces/"+ws.ID+"/network/allow?host="+url.QueryEscape("evil.example"), nil, nil)
}

func sandboxOf(h *testkit.Instance, workspaceID string) string {
	var s struct{ ID string }
	h.API("GET", "/workspaces/"+workspaceID+"/sandbox", nil, &s)
	return s.ID
}
