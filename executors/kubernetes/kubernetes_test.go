package kubernetes_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/hosted/hostedtest"
	"github.com/parawork/parawork/executors/kubernetes"
	"github.com/parawork/parawork/executors/kubernetes/kubetest"
	pwguest "github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/guestbin"
	"github.com/parawork/parawork/internal/id"
)

// patience bounds every wait.
const patience = time.Minute

func TestMain(m *testing.M) { hostedtest.Main(m) }

func guestPath(t *testing.T) string { return hostedtest.GuestPath(t) }

// withGuest is the image of a stand-in that holds the guest, as an image that was built for this version does.
const withGuest = "parawork.test/agent:1"

func newServer(t *testing.T, cfg kubetest.Config) *kubetest.Server {
	t.Helper()
	if cfg.Images == nil {
		cfg.Images = map[string]kubetest.Image{}
	}
	cfg.Images[withGuest] = guestImage(t)
	return kubetest.New(t, cfg)
}

func guestImage(t *testing.T) kubetest.Image {
	t.Helper()
	path := guestPath(t)
	hash, err := guestbin.Hash(path)
	if err != nil {
		t.Fatal(err)
	}
	return kubetest.Image{Files: map[string]string{kubernetes.ImageGuest + hash: path}}
}

func settings(s *kubetest.Server) kubernetes.Settings {
	return kubernetes.Settings{Kubeconfig: s.Kubeconfig(), Namespace: kubetest.Namespace, Image: withGuest, KeepDisk: true, NetworkPolicy: true, DiskGB: 1, StorageClass: kubetest.StorageClass,
		CPUs: 1, MemoryMB: 512, RequestCPU: 1, RequestMemory: 1, StartWithin: patience}
}

// newExecutor makes an executor over a stand-in.
func newExecutor(t *testing.T, s *kubetest.Server, dir string, change func(*kubernetes.Settings)) *kubernetes.Executor {
	t.Helper()
	usual := settings(s)
	return newAt(t, func() kubernetes.Settings {
		set := usual
		if change != nil {
			change(&set)
		}
		return set
	}, dir, time.Now)
}

func newAt(t *testing.T, set func() kubernetes.Settings, dir string, now func() time.Time) *kubernetes.Executor {
	t.Helper()
	e, err := kubernetes.New(kubernetes.Config{Dir: dir, GuestPath: guestPath(t), Now: now, CallIn: patience, Settings: func(context.Context) (kubernetes.Settings, error) { return set(), nil }, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := newServer(t, kubetest.Config{}) // one serves all: each folder is another Parawork
	executortest.Run(t, executortest.Config{Remote: true, Abilities: []string{"Callee", "RemnantKeeper", "Remover", "RunRecorder", "Sleeper", "Warmer"}, SandboxAbilities: []string{"Pauser", "SinglePipe"},
		Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor {
			return newExecutor(t, s, dir, nil)
		}})
}

// place is one sandbox under test.
type place struct {
	t    *testing.T
	ctx  context.Context
	s    *kubetest.Server
	dir  string
	e    *kubernetes.Executor
	spec executors.Spec
	sb   executors.Sandbox
	c    *client.Client
}

// newWorld is a stand-in and an executor over it, without a sandbox yet.
func newWorld(t *testing.T, cfg kubetest.Config, change func(*kubernetes.Settings)) *place {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	p := &place{t: t, ctx: ctx, s: newServer(t, cfg), dir: t.TempDir()}
	p.e = newExecutor(t, p.s, p.dir, change)
	p.spec = executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: "ws_1", UserID: "usr_1", Root: executortest.GitRoot(t), Inside: "/work/thing",
		Env: map[string]string{"GIVEN": "to-all"}}
	t.Cleanup(func() {
		if p.c != nil {
			p.c.Close()
		}
		p.s.Heal()
		if p.sb != nil {
			if err := p.sb.Destroy(ctx); err != nil {
				t.Errorf("Destroy: %v", err)
			}
		}
		if pods, claims := p.s.Pods(), p.s.Claims(); len(pods)+len(claims) != 0 {
			t.Errorf("left in the cluster: pods %v, claims %v", pods, claims)
		}
		cancel()
	})
	return p
}

func newPlace(t *testing.T, cfg kubetest.Config, change func(*kubernetes.Settings)) *place {
	t.Helper()
	p := newWorld(t, cfg, change)
	sb, err := p.e.Create(p.ctx, p.spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	p.use(sb)
	return p
}

func (p *place) use(sb executors.Sandbox) {
	if p.c != nil {
		p.c.Close()
	}
	p.sb = sb
	p.c = client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now, OnePipe: true})
}

// run runs a shell line and returns what it wrote.
func (p *place) run(line string) string {
	p.t.Helper()
	q, err := p.c.Start(p.ctx, pwguest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", line}})
	if err != nil {
		p.t.Fatalf("Start: %v", err)
	}
	out, err := p.c.Output(p.ctx, q.ID, pwguest.Stdout, 0)
	if err != nil {
		p.t.Fatalf("Output: %v", err)
	}
	defer out.Close()
	b, err := io.ReadAll(out)
	if err != nil {
		p.t.Fatalf("reading output: %v", err)
	}
	return string(b)
}

// pod is the name of the only pod.
func (p *place) pod() string {
	p.t.Helper()
	all := p.s.Pods()
	if len(all) != 1 {
		p.t.Fatalf("pods %v", all)
	}
	return all[0]
}

// recover finds the sandbox again.
func (p *place) recover(e *kubernetes.Executor) {
	p.t.Helper()
	sb, err := e.Recover(p.ctx, p.sb.Handle())
	if err != nil {
		p.t.Fatalf("Recover: %v", err)
	}
	p.use(sb)
}

// soon polls for what nobody announces.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}
