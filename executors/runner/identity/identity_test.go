package identity_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// server is one that enrols, as the real one does.
type server struct {
	*httptest.Server
	key ed25519.PublicKey

	mu     sync.Mutex
	asked  []wire.Enrol
	answer func(w http.ResponseWriter, r *http.Request, e wire.Enrol)
}

// had returns what it was asked.
func (s *server) had() []wire.Enrol {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// answers has it answer otherwise from now on.
func (s *server) answers(fn func(w http.ResponseWriter, r *http.Request, e wire.Enrol)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = fn
}

func newServer(t *testing.T) *server {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{key: pub}
	s.answer = func(w http.ResponseWriter, _ *http.Request, e wire.Enrol) {
		_ = json.NewEncoder(w).Encode(wire.Enrolled{RunnerID: "rn_1", Name: e.Name, Team: "acme", ServerKey: s.key})
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e wire.Enrol
		if r.URL.Path != wire.EnrolPath || json.NewDecoder(r.Body).Decode(&e) != nil {
			http.NotFound(w, r)
			return
		}
		s.mu.Lock()
		s.asked = append(s.asked, e)
		answer := s.answer
		s.mu.Unlock()
		answer(w, r, e)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) token(id byte) string {
	return wire.Token{ID: strings.Repeat(string(id), 26), Secret: strings.Repeat("s", 43), Print: wire.Fingerprint(s.key)}.String()
}

func TestEnrol(t *testing.T) {
	t.Parallel()
	s, root := newServer(t), t.TempDir()
	cfg := identity.EnrolConfig{Root: root, Server: s.URL, Token: s.token('a'), Name: "Work Laptop", Hello: wire.Hello{OS: "linux"}}
	id, err := identity.Enrol(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if id.RunnerID != "rn_1" || id.Team != "acme" || !id.ServerKey.Equal(s.key) || !id.Key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(s.had()[0].PublicKey)) || s.had()[0].Hello.OS != "linux" {
		t.Errorf("%+v", id)
	}
	if filepath.Base(id.Dir) != "work-laptop" {
		t.Errorf("its folder is %s", id.Dir)
	}
	err = filepath.Walk(root, func(path string, st os.FileInfo, err error) error {
		if err == nil && path != root && st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", path, st.Mode())
		}
		if strings.HasPrefix(st.Name(), ".pending") {
			t.Errorf("%s is left behind", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	back, err := identity.Load(root, "", "")
	if err != nil || back.RunnerID != id.RunnerID || !back.Key.Equal(id.Key) || back.Dir != id.Dir {
		t.Errorf("%+v, %v", back, err)
	}
	if again := identity.Enrolled(root, s.URL, cfg.Token); again == nil || again.RunnerID != "rn_1" {
		t.Error("the same line cannot be run again")
	}
	if identity.Enrolled(root, s.URL, s.token('b')) != nil {
		t.Error("another token counts as the same")
	}
}

func TestANewKeyKeepsTheFolder(t *testing.T) {
	t.Parallel()
	s, root := newServer(t), t.TempDir()
	first, err := identity.Enrol(t.Context(), identity.EnrolConfig{Root: root, Server: s.URL, Token: s.token('a'), Name: "Box"})
	if err != nil {
		t.Fatal(err)
	}
	first.Mode = wire.Docker
	if err := first.Save(); err != nil {
		t.Fatal(err)
	}
	renewed, err := identity.Enrol(t.Context(), identity.EnrolConfig{Root: root, Server: s.URL, Token: s.token('b'), Name: "Box"})
	if err != nil || renewed.Dir != first.Dir || renewed.Key.Equal(first.Key) || renewed.Mode != wire.Docker {
		t.Errorf("%+v, %v", renewed, err)
	}
	s.answers(func(w http.ResponseWriter, _ *http.Request, e wire.Enrol) {
		_ = json.NewEncoder(w).Encode(wire.Enrolled{RunnerID: "rn_2", Name: "box", ServerKey: s.key})
	})
	second, err := identity.Enrol(t.Context(), identity.EnrolConfig{Root: root, Server: s.URL, Token: s.token('c')})
	if err != nil || second.Dir == first.Dir {
		t.Errorf("two machines share a folder: %+v, %v", second, err)
	}
	if _, err := identity.Load(root, "", ""); fault.CodeOf(err) != "runner_ambiguous" || !strings.Contains(err.Error(), `--name "Box"`) {
		t.Errorf("%v", err)
	}
	if id, err := identity.Load(root, s.URL, "box"); err != nil || id.RunnerID != "rn_2" {
		t.Errorf("%+v, %v", id, err)
	}
	if err := second.Remove(); err != nil {
		t.Fatal(err)
	}
	if id, err := identity.Load(root, "", ""); err != nil || id.RunnerID != "rn_1" {
		t.Errorf("%+v, %v", id, err)
	}
}

// An answer that was lost: the server knows the key already, so the same must be sent again.
func TestALostAnswerIsAskedForAgainWithTheSameKey(t *testing.T) {
	t.Parallel()
	s, root := newServer(t), t.TempDir()
	fine := s.answer
	s.answers(func(w http.ResponseWriter, _ *http.Request, _ wire.Enrol) { panic(http.ErrAbortHandler) })
	cfg := identity.EnrolConfig{Root: root, Server: s.URL, Token: s.token('a'), Name: "Box"}
	if _, err := identity.Enrol(t.Context(), cfg); fault.CodeOf(err) != "runner_server_unreachable" {
		t.Fatalf("%v", err)
	}
	s.answers(fine)
	if _, err := identity.Enrol(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	asked := s.had()
	first, last := asked[0], asked[len(asked)-1]
	if len(asked) < 2 || !ed25519.PublicKey(first.PublicKey).Equal(ed25519.PublicKey(last.PublicKey)) {
		t.Error("another key was sent the second time")
	}
}

func TestAServerThatIsNotTheTokensIsNotBelieved(t *testing.T) {
	t.Parallel()
	s, other, root := newServer(t), newServer(t), t.TempDir()
	refused := func(name string, cfg identity.EnrolConfig, want string) {
		t.Helper()
		cfg.Root = root
		if _, err := identity.Enrol(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := identity.List(root); err != nil || len(all) != 0 {
			t.Errorf("%s: connected all the same: %v, %v", name, all, err)
		}
	}
	refused("another server's key", identity.EnrolConfig{Server: other.URL, Token: s.token('a')}, "is not the server this token belongs to")
	refused("half a token", identity.EnrolConfig{Server: s.URL, Token: s.token('a')[:60]}, "copy the whole of it")
	s.answers(func(w http.ResponseWriter, r *http.Request, _ wire.Enrol) {
		http.Redirect(w, r, other.URL+wire.EnrolPath, http.StatusTemporaryRedirect)
	})
	refused("a redirect", identity.EnrolConfig{Server: s.URL, Token: s.token('b')}, "redirects this machine to")
	if len(other.had()) != 1 {
		t.Error("a token went where its owner had not said")
	}
	s.answers(func(w http.ResponseWriter, _ *http.Request, _ wire.Enrol) {
		_ = json.NewEncoder(w).Encode(wire.Enrolled{RunnerID: "../../x", ServerKey: s.key})
	})
	refused("an id that is a path", identity.EnrolConfig{Server: s.URL, Token: s.token('c')}, "is invalid")
	s.answers(func(w http.ResponseWriter, _ *http.Request, _ wire.Enrol) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": "runner_token_used", "message": "This token was used\x1b[2J."})
	})
	refused("a refusal", identity.EnrolConfig{Server: s.URL, Token: s.token('d')}, "This token was used[2J.")
	s.answers(func(w http.ResponseWriter, _ *http.Request, _ wire.Enrol) {
		http.Error(w, "nginx", http.StatusBadGateway)
	})
	refused("no Parawork", identity.EnrolConfig{Server: s.URL, Token: s.token('e')}, "502")
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"https://A.example.com/": "https://a.example.com", "a.example.com:8443": "https://a.example.com:8443", "http://localhost:8080": "http://localhost:8080",
		"https://example.com/parawork/": "https://example.com/parawork", "ftp://x": "", "https://u:p@x": "", "https://": "", "https://x?y": ""} {
		if got, err := identity.Address(in); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
}

func TestADamagedOrOpenKeyIsNamed(t *testing.T) {
	t.Parallel()
	s, root := newServer(t), t.TempDir()
	id, err := identity.Enrol(t.Context(), identity.EnrolConfig{Root: root, Server: s.URL, Token: s.token('a'), Name: "Box"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(id.Dir, "machine.json")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Load(root, "", ""); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Load(root, "", ""); err == nil || !strings.Contains(err.Error(), "New key") {
		t.Errorf("%v", err)
	}
}
