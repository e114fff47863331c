package places

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/boxlite"
	"github.com/parawork/parawork/executors/boxlite/boxlitetest"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/cloudflare"
	"github.com/parawork/parawork/executors/cloudflare/cloudflaretest"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/docker/hosts"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/executors/hosted"
	"github.com/parawork/parawork/executors/hosted/hostedtest"
	"github.com/parawork/parawork/executors/images/recipe"
	localplace "github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/executors/vercel"
	"github.com/parawork/parawork/executors/vercel/verceltest"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/testing/bench/envd"
	"github.com/parawork/parawork/testing/testdocker"
)

// boxUID is whom worktrees belong to where the bench runs as root.
const boxUID = 600_800_000

// worktree makes the folder that sandboxes show, where their users are others.
func (r *rig) worktree(others bool) string {
	dir := filepath.Join(r.TempDir(), "worktree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		panic(err)
	}
	if others && os.Geteuid() == 0 {
		if err := os.Lchown(dir, boxUID, boxUID); err != nil {
			panic(err)
		}
	}
	return dir
}

func (r *rig) close(c io.Closer) { r.Cleanup(func() { _ = c.Close() }) }

// command is a machine that is a program of this machine, before whatever is started in it.
type command []string

func (c command) make(context.Context) (machine, error) { return c, nil }
func (command) remove(context.Context) error            { return nil }

func (c command) open(ctx context.Context, argv ...string) (io.ReadWriteCloser, error) {
	argv = append(append([]string{}, c...), argv...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{in, out, cmd}, cmd.Start()
}

type process struct {
	io.WriteCloser
	out io.Reader
	cmd *exec.Cmd
}

// Read reads what the program writes.
func (p *process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Close ends the program.
func (p *process) Close() error {
	_ = p.WriteCloser.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return nil
}

func local(r *rig) (place, error) {
	ex, err := localplace.New(localplace.Config{Enabled: true, Dir: r.TempDir(), GuestPath: r.cfg.Guest})
	return place{ex: ex, root: r.worktree(false), bare: command{}}, err
}

func boxed(r *rig) (place, error) {
	ex, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: r.TempDir(), GuestPath: r.cfg.Guest})
	if err != nil {
		return place{}, err
	}
	if c, err := ex.Capabilities(context.Background()); err != nil || !c.Available {
		r.Skip(c.Reason, err)
	}
	return place{ex: ex, root: r.worktree(true), bare: command{"bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev"}}, nil
}

// engine has containers that one command makes and another starts programs in.
type engine struct{ host string }

type bareContainer struct {
	engine
	name string
}

func (e engine) run(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, "docker", append([]string{"-H", e.host}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("docker %s: %w: %s", args[0], err, out)
	}
	return nil
}

func (e engine) make(ctx context.Context) (machine, error) {
	m := bareContainer{e, id.New("bare")}
	return m, e.run(ctx, "run", "-d", "--init", "--name", m.name, "--network", "none", testdocker.Image, "sleep", "3600")
}

func (m bareContainer) open(ctx context.Context, argv ...string) (io.ReadWriteCloser, error) {
	return command{"docker", "-H", m.host, "exec", "-i", m.name}.open(ctx, argv...)
}

func (m bareContainer) remove(ctx context.Context) error { return m.run(ctx, "rm", "-f", m.name) }

func container(r *rig) (place, error) {
	d, err := testdocker.Start()
	if err != nil {
		r.Skip(err)
	}
	r.Cleanup(d.Stop)
	ex, err := docker.New(docker.Config{Dir: r.TempDir(), GuestPath: r.cfg.Guest, Host: d.Host, Image: testdocker.Image, Grace: 100 * time.Millisecond})
	if err != nil {
		return place{}, err
	}
	r.close(ex)
	return place{ex: ex, root: r.worktree(false), bare: engine{d.Host}}, nil
}

// dockerHost is the same container on a host that is reached over SSH.
func dockerHost(r *rig) (place, error) {
	d, err := testdocker.Start()
	if err != nil {
		r.Skip(err)
	}
	r.Cleanup(d.Stop)
	s := testdocker.StartSSH(r, d.Host)
	all, err := hosts.ParseHosts([]string{"bench " + s.Address + " " + s.Fingerprint})
	if err != nil {
		return place{}, err
	}
	ex, err := hosts.New(hosts.Config{Dir: r.TempDir(), GuestPath: r.cfg.Guest,
		Settings: func(context.Context) hosts.Settings {
			return hosts.Settings{Hosts: all, Key: s.Key, Image: testdocker.Image}
		},
		Prepare: func(docker.Prepare) docker.Prepare {
			return docker.Prepare{Agents: []recipe.Package{}, Offline: "the bench has no network"}
		}})
	if err != nil {
		return place{}, err
	}
	r.close(ex)
	return place{ex: ex, root: r.worktree(true), remote: true, bare: engine{d.Host}}, nil
}

// service is what a place's sandboxes are made of, as its own API has it.
type service struct {
	hosted.Service
	root string
}

type hostedMachine struct {
	hosted.Service
	id string
}

func (s service) make(ctx context.Context) (machine, error) {
	m, err := s.Make(ctx, "bare-"+id.New("m")[2:14], executors.Spec{ID: "bare", TeamID: "team_bench", WorkspaceID: "ws_bench", Root: s.root})
	return hostedMachine{s.Service, m.ID}, err
}

func (m hostedMachine) open(ctx context.Context, argv ...string) (io.ReadWriteCloser, error) {
	return m.Open(ctx, m.id, argv)
}

func (m hostedMachine) remove(ctx context.Context) error { return m.Remove(ctx, m.id) }

// atService is the place of an executor over a service: its API is taken from a sandbox of the executor.
func (r *rig) atService(ex executors.Executor) (place, error) {
	r.close(ex.(io.Closer))
	p := place{ex: ex, root: r.worktree(true), remote: true}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sb, err := ex.Create(ctx, p.spec())
	if err != nil {
		return p, err
	}
	s, err := sb.(interface {
		Service(context.Context) (hosted.Service, error)
	}).Service(ctx)
	p.bare = service{s, p.root}
	return p, errors.Join(err, sb.Destroy(ctx))
}

// guestInImages has the images of stand-ins hold the guest, as those have that operators make.
func (r *rig) guestInImages() {
	hostedtest.Need(r)
	hostedtest.Guest = func() (string, error) { return r.cfg.Guest, nil }
}

func boxliteBoxes(r *rig) (place, error) {
	r.guestInImages()
	s := boxlitetest.New(r, true)
	ex, err := boxlite.New(boxlite.Config{Dir: r.TempDir(), GuestPath: r.cfg.Guest, Settings: func(context.Context) (boxlite.Settings, error) {
		return boxlite.Settings{URL: s.URL(), APIKey: s.Key()}, nil
	}})
	if err != nil {
		return place{}, err
	}
	return r.atService(ex)
}

func vercelBoxes(r *rig) (place, error) {
	r.guestInImages()
	s := verceltest.New(r, true)
	ex, err := vercel.New(vercel.Config{Dir: r.TempDir(), GuestPath: r.cfg.Guest, Settings: func(context.Context) (vercel.Settings, error) {
		return vercel.Settings{Token: s.Token(), Team: verceltest.Team, Project: verceltest.Project, APIURL: s.URL(), Image: "universal"}, nil
	}})
	if err != nil {
		return place{}, err
	}
	return r.atService(ex)
}

func cloudflareBoxes(r *rig) (place, error) {
	r.guestInImages()
	s := cloudflaretest.New(r)
	ex, err := cloudflare.New(cloudflare.Config{Dir: r.TempDir(), GuestPath: r.cfg.Guest, Settings: func(context.Context) (cloudflare.Settings, error) {
		return cloudflare.Settings{URL: s.URL(), APIKey: s.Key()}, nil
	}})
	if err != nil {
		return place{}, err
	}
	return r.atService(ex)
}

// envdBoxes are sandboxes of a stand-in for E2B, spoken to with nothing but its calls.
type envdBoxes struct{ s *e2btest.Server }

type envdBox struct{ *envd.Box }

func (e envdBoxes) make(context.Context) (machine, error) {
	b, err := envd.New(e.s)
	return envdBox{b}, err
}

func (b envdBox) open(_ context.Context, argv ...string) (io.ReadWriteCloser, error) {
	return b.Pipe(argv...)
}

func (b envdBox) remove(context.Context) error { return b.Kill() }

func e2bPlace(r *rig) (place, error) {
	s, err := e2btest.Open(e2btest.Config{Plan: e2btest.Plan{Concurrent: 200}})
	if errors.Is(err, e2btest.ErrNoSandboxes) {
		r.Skip(err)
	}
	if err != nil {
		return place{}, err
	}
	r.Cleanup(s.Close)
	set := e2b.Settings{APIKey: s.Key(), APIURL: s.APIURL(), SandboxURL: s.SandboxURL(), Proxy: "none"}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := e2b.Build(ctx, set, e2b.BuildSpec{GuestPath: r.cfg.Guest, PollEvery: 10 * time.Millisecond}, io.Discard); err != nil {
		return place{}, err
	}
	ex, err := e2b.New(e2b.Config{Dir: r.TempDir(), GuestPath: r.cfg.Guest, Settings: func(context.Context) (e2b.Settings, error) { return set, nil }})
	if err != nil {
		return place{}, err
	}
	r.close(ex)
	return place{ex: ex, root: r.worktree(true), remote: true, bare: envdBoxes{s}}, nil
}
