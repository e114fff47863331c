package executors_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

func TestLimitsAreMerged(t *testing.T) {
	t.Parallel()
	server := executors.Limits{CPUs: 2, MemoryMB: 2048, DiskMB: 1000}
	if got := server.With(executors.Limits{}); got != server {
		t.Errorf("nothing said: %+v", got)
	}
	if got, want := server.With(executors.Limits{CPUs: 0.5, WallMinutes: 60}), (executors.Limits{CPUs: 0.5, MemoryMB: 2048, DiskMB: 1000, WallMinutes: 60}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	most := executors.Limits{CPUs: 1, Processes: 100, DiskMB: 2000}
	if got, want := server.AtMost(most), (executors.Limits{CPUs: 1, MemoryMB: 2048, Processes: 100, DiskMB: 1000}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := server.AtMost(executors.Limits{}); got != server {
		t.Errorf("without a maximum: %+v", got)
	}
	if !(executors.Limits{}).None() || server.None() {
		t.Error("whether anything is bounded")
	}
}

func TestLimitsThatCannotBe(t *testing.T) {
	t.Parallel()
	most := executors.Limits{CPUs: 4, MemoryMB: 8192, WallMinutes: 90}
	for _, good := range []executors.Limits{{}, {CPUs: 0.05}, {CPUs: 4}, {MemoryMB: 128}, {Processes: 32}, {DiskMB: 16}, {WallMinutes: 90}, {Processes: 1 << 20}} {
		if err := good.Check(most); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, c := range []struct {
		l           executors.Limits
		code, field string
		says        string
	}{
		{executors.Limits{CPUs: 0.01}, "invalid_limit", "cpus", "between 0.05 and 1024"},
		{executors.Limits{CPUs: -1}, "invalid_limit", "cpus", ""},
		{executors.Limits{CPUs: math.NaN()}, "invalid_limit", "cpus", ""},
		{executors.Limits{CPUs: math.Inf(1)}, "invalid_limit", "cpus", ""},
		{executors.Limits{MemoryMB: 127}, "invalid_limit", "memory_mb", "between 128 and"},
		{executors.Limits{Processes: 31}, "invalid_limit", "processes", ""},
		{executors.Limits{DiskMB: 15}, "invalid_limit", "disk_mb", ""},
		{executors.Limits{WallMinutes: -1}, "invalid_limit", "wall_minutes", ""},
		{executors.Limits{CPUs: 4.5}, "limit_above_maximum", "cpus", "cpus may be 4 (4 cores) at most"},
		{executors.Limits{MemoryMB: 8193}, "limit_above_maximum", "memory_mb", "8192 (8 GiB)"},
		{executors.Limits{WallMinutes: 91}, "limit_above_maximum", "wall_minutes", "90 (1 hour 30 minutes)"},
	} {
		f, ok := errors.AsType[*fault.Error](c.l.Check(most))
		if !ok || f.Code != c.code || f.Kind != fault.Invalid || f.Details["field"] != c.field || !strings.Contains(f.Message, c.says) {
			t.Errorf("%+v: %v", c.l, f)
		}
	}
}

func TestLimitsInWords(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]executors.Limits{
		"none of its own": {},
		"1 core":          {CPUs: 1},
		"0.5 cores":       {CPUs: 0.5},
		"2 cores, 1.5 GiB of memory, 64 processes, 512 MiB of disk, 8 hours": {CPUs: 2, MemoryMB: 1536, Processes: 64, DiskMB: 512, WallMinutes: 480},
	} {
		if got := l.Words(); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
	for minutes, want := range map[int64]string{1: "1 minute", 45: "45 minutes", 60: "1 hour", 61: "1 hour 1 minute", 1440: "1 day", 2*1440 + 120 + 5: "2 days 2 hours 5 minutes"} {
		if got := executors.MinutesWords(minutes); got != want {
			t.Errorf("%d: %q, want %q", minutes, got, want)
		}
	}
	for mb, want := range map[int64]string{1: "1 MiB", 1023: "1023 MiB", 1024: "1 GiB", 1536: "1.5 GiB", 10240: "10 GiB", 102400: "100 GiB"} {
		if got := executors.MemoryWords(mb); got != want {
			t.Errorf("%d: %q, want %q", mb, got, want)
		}
	}
	if got := (executors.Size{CPUs: 1, MemoryMB: 512}).Words(); got != "1 core, 512 MiB" {
		t.Errorf("%q", got)
	}
	if got := executors.LimitNames(); !slices.Equal(got, []string{"cpus", "memory_mb", "processes", "disk_mb", "wall_minutes"}) {
		t.Errorf("%q", got)
	}
}

func TestBoundariesAreOrdered(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for i, b := range executors.Boundaries {
		names[b.Name()] = true
		for j, least := range executors.Boundaries {
			if got := b.AtLeast(least); got != (i >= j) {
				t.Errorf("%s at least %s: %v", b, least, got)
			}
			if got, want := executors.Stronger(b, least), executors.Boundaries[max(i, j)]; got != want {
				t.Errorf("the stronger of %s and %s: %s", b, least, got)
			}
		}
		if !b.AtLeast("") || b.LeastWords() == "" {
			t.Errorf("%s", b)
		}
	}
	if len(names) != len(executors.Boundaries) {
		t.Errorf("two have one name: %v", names)
	}
	if executors.Boundary("").AtLeast(executors.NoBoundary) {
		t.Error("a boundary nobody reported is at least one that is known")
	}
}

func TestWhatChangesWithThePlace(t *testing.T) {
	t.Parallel()
	local := executors.Capabilities{Boundary: executors.NoBoundary, Host: true}
	docker := executors.Capabilities{Boundary: executors.ContainerBoundary, Isolated: true, Network: true, Limits: true}
	far := executors.Capabilities{Boundary: executors.MachineBoundary, Isolated: true, Network: true, Limits: true, OwnDisk: true, Name: "E2B", PriceNano: 133_200_000}
	for _, c := range []struct {
		from, to  executors.Capabilities
		says, not []string
	}{
		{local, docker, []string{"stronger: container instead of no isolation", "Only hosts the project allows can be reached", "processes are enforced", "from the image instead of from this server", "another home folder", "The worktree and all commits stay"}, []string{"costs"}},
		{docker, local, []string{"weaker: no isolation instead of container", "The network is open", "are not enforced", "from this server instead of from the image"}, []string{"sent to another machine"}},
		{docker, far, []string{"stronger: microvm", "sent to another machine (E2B)", "It costs $0.133 an hour"}, []string{"network", "another home folder"}},
		{far, docker, []string{"weaker", "The code stays on this server", "It costs nothing by the hour."}, nil},
		{docker, docker, []string{"stays the same: container"}, []string{"network", "costs", "home folder"}},
		{executors.Capabilities{}, far, nil, []string{"boundary"}},
	} {
		got := strings.Join(executors.Differences(c.from, c.to), "\n")
		for _, s := range c.says {
			if !strings.Contains(got, s) {
				t.Errorf("%q is missing in %q", s, got)
			}
		}
		for _, s := range c.not {
			if strings.Contains(got, s) {
				t.Errorf("%q is in %q", s, got)
			}
		}
	}
	for nano, want := range map[int64]string{10_000_000: "$0.01 ", 133_200_000: "$0.133 ", 1_500_000_000: "$1.50 ", 999_000_000: "$1.00 ", 12_345_000_000: "$12.35 ", 500_000: "$0.001 "} {
		to := docker
		to.PriceNano = nano
		if got := strings.Join(executors.Differences(docker, to), "\n"); !strings.Contains(got, want) {
			t.Errorf("%d nano-USD: %q, want %s", nano, got, want)
		}
	}
}

func TestWhatIsNoCommand(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		argv []string
		env  map[string]string
		code string
	}{
		"a command":           {[]string{"make", "", "a b"}, map[string]string{"A": "", "B_2": "x=y"}, ""},
		"nothing":             {nil, nil, "invalid_command"},
		"no program":          {[]string{"", "a"}, nil, "invalid_command"},
		"a NUL":               {[]string{"a", "b\x00"}, nil, "invalid_command"},
		"too long":            {[]string{"a", strings.Repeat("x", guest.MaxArgv)}, nil, "command_too_large"},
		"no name":             {[]string{"a"}, map[string]string{"": "x"}, "invalid_env"},
		"a name of two":       {[]string{"a"}, map[string]string{"A=B": "x"}, "invalid_env"},
		"a NUL in a value":    {[]string{"a"}, map[string]string{"A": "\x00"}, "invalid_env"},
		"a large environment": {[]string{"a"}, map[string]string{"A": strings.Repeat("x", guest.MaxEnv)}, "env_too_large"},
	} {
		if err := executors.CheckArgv(c.argv, c.env); fault.CodeOf(err) != c.code || c.code == "" && err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for cwd, ok := range map[string]bool{"": true, ".": true, "a/b": true, "a/../b": true, "..a": true, "..": false, "../a": false, "a/../../b": false, "a\x00": false, strings.Repeat("a", guest.MaxPath+1): false} {
		if err := executors.CheckCwd(cwd); (err == nil) != ok {
			t.Errorf("%.20q: %v", cwd, err)
		}
	}
}

func TestWhereASandboxMayConnect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode       executors.NetworkMode
		only, port int
		want       bool
	}{{executors.NetworkOpen, 0, 8080, true}, {executors.NetworkOpen, 0, 25, false}, {"listed", 0, 443, true}, {"listed", 0, 22, true}, {"listed", 0, 80, true}, {"listed", 0, 8080, false},
		{"listed", 8080, 8080, true}, {"listed", 8080, 443, false}, {"listed", 25, 25, true}} {
		if got := executors.MayPort(c.mode, c.only, c.port); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for reason, says := range map[executors.RefusalReason]string{executors.NotListed: "example.com is not on the list", executors.PrivateAddress: "sandboxing.network.allowPrivate", executors.NoNetwork: "have no network",
		executors.Unresolved: "could not be resolved", executors.BadPort: "can allow example.com:8080", "": "refused"} {
		if got := (executors.Refusal{Host: "example.com", Port: 8080, Reason: reason}).Words(); !strings.Contains(got, says) {
			t.Errorf("%s: %q", reason, got)
		}
	}
	if got := (executors.Refusal{Host: "example.com", Port: 25, Reason: executors.BadPort}).Words(); !strings.Contains(got, "587") {
		t.Errorf("mail: %q", got)
	}
}

func TestEnvironments(t *testing.T) {
	t.Parallel()
	if got := executors.GuestEnv(map[string]string{"B": "2", "A": "1=1"}); !slices.Equal(got, []string{guest.EnvGive + "A=1=1", guest.EnvGive + "B=2"}) {
		t.Errorf("%q", got)
	}
	environ := []string{"PATH=/bin", "http_proxy=http://p", "HTTPS_PROXY=", "NO_PROXY=a,b", "HTTP_PROXY_PASSWORD=x", "SECRET=1"}
	before := slices.Clone(environ)
	if got := executors.ProxyEnv(environ); !slices.Equal(got, []string{"http_proxy=http://p", "NO_PROXY=a,b"}) || !slices.Equal(environ, before) {
		t.Errorf("%q of %q", got, environ)
	}
}

func TestKindsOfFamilies(t *testing.T) {
	t.Parallel()
	mac := executors.Runner.Of("mac_1")
	if mac != "runner:mac_1" || mac.Base() != executors.Runner || mac.Member() != "mac_1" {
		t.Errorf("%s, %s, %s", mac, mac.Base(), mac.Member())
	}
	if k := executors.Kind("docker"); k.Base() != k || k.Member() != "" {
		t.Errorf("%s, %s", k.Base(), k.Member())
	}
	for owner, want := range map[executors.Owner]bool{{UserID: "ada"}: true, {UserID: "bob"}: false, {UserID: "bob", Shared: true}: true, {}: false} {
		if got := owner.Admits("ada"); got != want {
			t.Errorf("%+v admits her: %v", owner, got)
		}
	}
}

func TestWhoAnswersForASandbox(t *testing.T) {
	t.Parallel()
	if err := executors.CheckHello(guest.Hello{SandboxID: "sbx", Version: guest.Version}, "sbx"); err != nil {
		t.Error(err)
	}
	if err := executors.CheckHello(guest.Hello{SandboxID: "another", Version: guest.Version}, "sbx"); !errors.Is(err, executors.ErrGone) {
		t.Errorf("another's guest: %v", err)
	}
	for _, v := range []int{0, -1, guest.Version + 1, guest.Version - 2} {
		if err := executors.CheckHello(guest.Hello{SandboxID: "sbx", Version: v}, "sbx"); fault.CodeOf(err) != "guest_version" {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

func TestWhyASandboxIsGone(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("asking: %w", executors.GoneBecause("Somebody deleted it at E2B."))
	if !errors.Is(err, executors.ErrGone) || executors.WhyGone(err, "It is gone.") != "Somebody deleted it at E2B." || !strings.Contains(err.Error(), "deleted it") {
		t.Errorf("%v", err)
	}
	for _, other := range []error{executors.ErrGone, errors.New("no"), nil} {
		if got := executors.WhyGone(other, "It is gone."); got != "It is gone." {
			t.Errorf("%v: %q", other, got)
		}
	}
	if got := executors.ReasonOf(fmt.Errorf("making: %w", fault.Wrap(errors.New("EACCES"), fault.Unavailable, "x", "Docker does not answer."))); got != "Docker does not answer." {
		t.Errorf("%q", got)
	}
	if got := executors.ReasonOf(errors.New("EACCES")); got != "EACCES" {
		t.Errorf("%q", got)
	}
	if fault.CodeOf(executors.ErrStopping()) != "stopping" {
		t.Error(executors.ErrStopping())
	}
}

func TestWhoAsks(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	asks := func(what string, ctx context.Context, purpose executors.Purpose, user string) {
		t.Helper()
		if p, u := executors.AskerOf(ctx); p != purpose || u != user {
			t.Errorf("%s: %q for %q", what, p, u)
		}
	}
	asks("nobody", ctx, "", "")
	asks("a request of hers", executors.By(ctx, "ada"), "", "ada")
	asks("a session of hers", executors.As(executors.By(ctx, "bob"), executors.ForAgent, "ada"), executors.ForAgent, "ada")
	if executors.AsOf(executors.By(ctx, "ada")) != (executors.Asker{}) {
		t.Error("a request is taken for a use")
	}
	order := []executors.Purpose{"", executors.ForExecution, executors.ForApp, executors.ForAgent}
	if !slices.IsSortedFunc(order, func(a, b executors.Purpose) int { return a.Rank() - b.Rank() }) || executors.ForAgent.Rank() == executors.ForApp.Rank() {
		t.Error("the order of purposes")
	}
	for why, wakes := range map[executors.PausedFor]bool{executors.ByIdle: true, executors.ByCeiling: true, executors.ByLease: true, executors.ByPerson: false, executors.ByLimit: false, "": false} {
		if why.Wakes() != wakes {
			t.Errorf("paused for %q it wakes by itself: %v", why, !wakes)
		}
	}
	if executors.Discarding(ctx) || !executors.Discarding(executors.Discard(ctx)) {
		t.Error("whether work is given up")
	}
	executors.SayStep(ctx, "pull", "Pulling", "") // nobody listens
	var reported []string
	heard := executors.WithProgress(ctx, func(_ context.Context, step, title, detail string, done, all int64) {
		reported = append(reported, fmt.Sprint(step, " ", title, " ", detail, " ", done, "/", all))
	})
	executors.SayStep(heard, "pull", "Pulling", "node:22")
	executors.SayProgress(heard, "pull", "", "", 5, 10)
	if !slices.Equal(reported, []string{"pull Pulling node:22 0/0", "pull   5/10"}) {
		t.Errorf("%q", reported)
	}
}
