//go:build linux

package docker_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/docker/hosts"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/testing/testdocker"
)

// An engine on another machine, by way of a proxy that breaks.
func TestFaults(t *testing.T) {
	t.Parallel()
	if engineErr != nil {
		testdocker.Skip(t, engineErr)
	}
	executortest.Faults(t, func(t *testing.T) executortest.Service {
		var lose, down atomic.Bool
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
		proxy.FlushInterval = -1
		proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(engine.Host, "unix://"))
		}}
		proxy.ModifyResponse = func(r *http.Response) error {
			if strings.HasSuffix(r.Request.URL.Path, "/containers/create") && lose.CompareAndSwap(true, false) {
				panic(http.ErrAbortHandler)
			}
			return nil
		}
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() {
				panic(http.ErrAbortHandler)
			}
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(front.Close)
		t.Cleanup(front.CloseClientConnections)
		c := &containers{t: t, names: "sandboxes/.docker-instance"}
		return executortest.Service{Left: c.left, Ends: c.ends(), Lose: func() { lose.Store(true) }, Down: func() { down.Store(true) }, Heal: func() { lose.Store(false); down.Store(false) },
			Executor: func(t *testing.T, dir string, now func() time.Time) executors.Executor {
				c.of(dir)
				return newWith(t, dir, func(c *docker.Config) { c.Host, c.Now = "tcp://"+front.Listener.Addr().String(), now })
			}}
	})
}

// Hosts that are reached over SSH: the engine is the same, so the usual run leaves them out.
func TestFaultsOfHosts(t *testing.T) {
	t.Parallel()
	if os.Getenv("PARAWORK_TEST_PLACES") == "" {
		t.Skip("SKIPPED: make test-places runs the table of faults over SSH")
	}
	s := startSSHServer(t)
	executortest.Faults(t, func(t *testing.T) executortest.Service {
		c := &containers{t: t, names: "sandboxes/.docker-hosts/*/.docker-instance"}
		return executortest.Service{Left: c.left, Ends: c.ends(), SameClock: true, Executor: func(t *testing.T, dir string, _ func() time.Time) executors.Executor {
			c.of(dir)
			return newHosts(t, dir, func() hosts.Settings { return s.settings(t, "build-1", "build-2") })
		}}
	})
}

// containers are those of some executors' folders at the tests' engine.
type containers struct {
	t     *testing.T
	names string // the files that name instances, below a folder
	dirs  []string
}

func (c *containers) of(dir string) {
	if !slices.Contains(c.dirs, dir) {
		c.dirs = append(c.dirs, dir)
	}
}

func (c *containers) left() (all []string) {
	for _, dir := range c.dirs {
		files, err := filepath.Glob(filepath.Join(dir, c.names)) // none: nothing was made yet
		if err != nil {
			c.t.Fatal(err)
		}
		for _, file := range files {
			instance, err := os.ReadFile(file)
			if err != nil {
				c.t.Fatal(err)
			}
			out, err := exec.Command("docker", "-H", engine.Host, "ps", "-aq", "--filter", "label=parawork.instance="+strings.TrimSpace(string(instance))).Output()
			if err != nil {
				c.t.Fatalf("docker ps: %v", err)
			}
			all = append(all, strings.Fields(string(out))...)
		}
	}
	return all
}

func (c *containers) ends() map[string]executortest.End {
	return map[string]executortest.End{"its container was killed": {Kept: true, Do: func() {
		for _, id := range c.left() {
			if out, err := exec.Command("docker", "-H", engine.Host, "kill", id).CombinedOutput(); err != nil {
				c.t.Errorf("docker kill: %v: %s", err, out)
			}
		}
	}}}
}
