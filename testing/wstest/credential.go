package wstest

import (
	"context"
	"encoding/pem"
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
)

// Vault stores credentials by project and host.
type Vault struct {
	mu   sync.Mutex
	Kept map[string]secrets.Credential
}

func (v *Vault) Credential(_ context.Context, _, projectID, host string) (secrets.Credential, bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok := v.Kept[projectID+" "+host]
	return c, ok, nil
}

func (v *Vault) CredentialFor(ctx context.Context, userID, teamID, projectID, host string) (secrets.Credential, bool, error) {
	if c, ok, err := v.Credential(ctx, teamID, userID, host); ok || err != nil {
		return c, ok, err
	}
	return v.Credential(ctx, teamID, projectID, host)
}

func (v *Vault) KeepCredential(_ context.Context, _, projectID, host, username, token, _ string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, there := v.Kept[projectID+" "+host]; !there {
		v.Kept[projectID+" "+host] = secrets.Credential{Host: host, Username: username, Token: token}
	}
	return nil
}

func (v *Vault) Put(projectID string, c secrets.Credential) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Kept[projectID+" "+c.Host] = c
}

// Forge is a git host over https that asks for a user name and a token.
type Forge struct {
	*httptest.Server
	User, Token string

	mu   sync.Mutex
	seen []string // Authorization headers
	hits int
	turn func(w http.ResponseWriter, r *http.Request) bool
}

func (f *Forge) Host() string { return strings.TrimPrefix(f.URL, "https://") }

func (f *Forge) Heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.seen, "\n")
}

func (f *Forge) Asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

func (f *Forge) Does(turn func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn = turn
}

// NewForge serves the bare repositories below root.
func NewForge(t *testing.T, root, user, token string) *Forge {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	Must(t, err)
	back := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	f := &Forge{User: user, Token: token}
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
		if u, p, ok := r.BasicAuth(); !ok || u != f.User || p != f.Token {
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

// Trusting is an environment in which git trusts a forge's certificate.
func Trusting(t *testing.T, f *Forge) func(string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw}), 0o600))
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

// BareRepo makes a bare repository below root with one commit, and returns a clone to push more from.
func BareRepo(t *testing.T, h *Env, root, name string) (work string) {
	t.Helper()
	work = h.Repo("work-" + name)
	Git(t, root, "clone", "--quiet", "--bare", work, filepath.Join(root, name))
	Git(t, work, "remote", "add", "forge", filepath.Join(root, name))
	return work
}

// Program writes a program that replaces git.
func Program(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "git")
	syscall.ForkLock.RLock() // a concurrently forked process would keep it open for writing
	defer syscall.ForkLock.RUnlock()
	Must(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}
