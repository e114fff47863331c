// Command parawork-guest is the program inside every sandbox: it owns the PTYs and processes, keeps their output, and answers
// its host for them, for files and for git's changes. See guest/daemon.
//
//	parawork-guest serve --dir DIR --root ROOT --sandbox ID --listen-fd 3 --token-file FILE
//	parawork-guest serve --dir DIR --root ROOT --sandbox ID --call SOCKET --token-file FILE
//	parawork-guest serve --dir DIR --root ROOT --sandbox ID --listen SOCKET --boot-file FILE
//	parawork-guest bridge [--wait DURATION] [--acked] SOCKET [ID]
//	parawork-guest attend --listen :PORT
//	parawork-guest egress-bridge SOCKET
//	parawork-guest hook [--wait DURATION] AGENT
//	parawork-guest mcp
//	parawork-guest agent
//	parawork-guest tool ARGUMENT...
//	parawork-guest edited
//	parawork-guest browser --id ID [--memory BYTES] [--idle DURATION] [--no-sandbox]
//	parawork-guest kernel [--memory BYTES] LANGUAGE
//	parawork-guest connect HOST PORT
//	parawork-guest fetch [--max-bytes N] URL
//
// "bridge" is what a host starts beside a guest it can start processes with but not dial: see guest/bridge. "attend" is
// the first process of a container that is only reached at a port: see guest/attend. "egress-bridge" is
// the same as bridge for the way out: see guest/egressbridge. "hook" is what agents' hooks run: it hands what they say to the guest beside them, see guest/hook.
// "mcp" is the MCP server that agents start, a relay to the server's tools: see guest/mcprelay. "agent" is the terminal
// of the server's own agent: see guest/agentterm. "tool" is the same tools as a
// command line: see guest/toolcmd. "edited" has the language server check what an agent edited. Started under the name "parawork" the program is that command line, and
// under "bd" its tasks as beads' program has them. "browser" runs Chromium: see guest/browser. "desktop" runs a desktop: see guest/desktop. "kernel" runs
// code in an interpreter that keeps its variables: see guest/kernel. "fetch" reads a page of the web: see guest/fetch. "connect" is what ssh runs to
// get out of a sandbox without a network of its own, see guest/relay; serve lets other programs out with --egress. "launch"
// is for the server alone: the step before a box is made, see guest/launch.
//
// The host's pipes are accepted from an inherited listening socket, or the guest calls its host at a unix socket, where nobody can
// dial it: see guest/reversedial. With --call-file it also calls its host over the network: see guest/call. The token is read from --token-file, from --token-fd, or from
// PARAWORK_GUEST_TOKEN, which is removed from the environment at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/attend"
	"github.com/parawork/parawork/guest/bridge"
	"github.com/parawork/parawork/guest/browser"
	"github.com/parawork/parawork/guest/changes"
	"github.com/parawork/parawork/guest/daemon"
	"github.com/parawork/parawork/guest/desktop"
	"github.com/parawork/parawork/guest/egressbridge"
	"github.com/parawork/parawork/guest/fetch"
	"github.com/parawork/parawork/guest/hook"
	"github.com/parawork/parawork/guest/kernel"
	"github.com/parawork/parawork/guest/launch"
	"github.com/parawork/parawork/guest/mcprelay"
	"github.com/parawork/parawork/guest/relay"
	"github.com/parawork/parawork/guest/reversedial"
	"github.com/parawork/parawork/guest/seal"
	"github.com/parawork/parawork/guest/toolcmd"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: parawork-guest serve --dir DIR --root ROOT --sandbox ID [--home DIR] [--listen-fd 3 | --listen SOCKET | --call SOCKET] [--token-file FILE | --token-fd FD | --boot-file FILE] [--log FILE] [--ended FILE] [--call-file FILE] [--egress SOCKET] [--own-env] [--own-network] [--make-root]
       parawork-guest bridge [--wait DURATION] [--acked] SOCKET [ID]
       parawork-guest attend --listen :PORT
       parawork-guest egress-bridge SOCKET
       parawork-guest hook [--wait DURATION] AGENT
       parawork-guest mcp
       parawork-guest agent
       parawork-guest tool ARGUMENT...
       parawork-guest edited
       parawork-guest browser --id ID [--memory BYTES] [--idle DURATION] [--no-sandbox]
       parawork-guest desktop --probe | --id ID [--memory BYTES] [--idle DURATION] [--no-sandbox]
       parawork-guest kernel [--memory BYTES] LANGUAGE
       parawork-guest connect HOST PORT
       parawork-guest fetch [--max-bytes N] URL
       parawork-guest version
`

// tokenEnv is where the token is taken from when no flag says otherwise.
const tokenEnv = "PARAWORK_GUEST_TOKEN"

// commandName is the name under which the program is the command line of the tools.
const commandName = "parawork"

func main() {
	args := os.Args[1:]
	if filepath.Base(os.Args[0]) == commandName && (len(args) == 0 || args[0] != "mcp") {
		os.Exit(runTool(args))
	}
	if filepath.Base(os.Args[0]) == toolcmd.Beads {
		os.Exit(runBeads(args))
	}
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var err error
	switch args[0] {
	case "serve", "guest":
		err = serve(args[1:])
	case "launch":
		err = launch.Run()
	case "bridge":
		err = runBridge(args[1:])
	case "attend":
		err = runAttend(args[1:])
	case "egress-bridge":
		err = runEgressBridge(args[1:])
	case "egress":
		err = runEgress(args[1:])
	case "hook":
		err = runHook(args[1:])
	case toolcmd.Beads:
		os.Exit(runBeads(args[1:]))
	case "mcp":
		err = runMCP()
	case "agent":
		err = runAgent()
	case "tool":
		os.Exit(runTool(args[1:]))
	case "desktop":
		os.Exit(runDesktop(os.Args[2:]))
	case "edited":
		runEdited()
	case "browser":
		os.Exit(runBrowser(args[1:]))
	case "kernel":
		os.Exit(runKernel(args[1:]))
	case "connect":
		err = connect(args[1:])
	case "fetch":
		os.Exit(runFetch(args[1:]))
	case "version", "--version":
		fmt.Println("parawork-guest", version)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "parawork-guest:", err)
		os.Exit(1)
	}
}

// runHook hands one hook of an agent to the guest. What the server answers ends with the program.
func runHook(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	return hook.Run(ctx, args, os.Getenv, os.Stdin, os.Stdout)
}

// runMCP relays between an agent and the server's tools.
func runMCP() error {
	spare()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	return mcprelay.Run(ctx, mcprelay.Config{Env: os.Getenv, In: os.Stdin, Out: os.Stdout, Parent: os.Getppid})
}

// runBrowser runs Chromium, and returns the exit code.
func runBrowser(args []string) int {
	spare()
	cfg := browser.Config{In: os.Stdin, Out: os.Stdout, Env: os.Getenv}
	flags := flag.NewFlagSet("browser", flag.ContinueOnError)
	flags.StringVar(&cfg.ID, "id", "", "names the folder of its profile")
	flags.Int64Var(&cfg.Memory, "memory", 0, "bytes of memory that it may use; 0 = no limit")
	flags.DurationVar(&cfg.Idle, "idle", 0, "how long it goes on without a message; 0 = for ever")
	flags.BoolVar(&cfg.NoSandbox, "no-sandbox", false, "it may run without a sandbox of its own where it cannot have one: the place isolates it")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || guest.CheckID(cfg.ID) != nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	return browser.Run(cfg)
}

// runDesktop runs a desktop, and returns the exit code.
func runDesktop(args []string) int {
	spare()
	cfg := desktop.Config{Out: os.Stdout, Env: os.Getenv}
	flags := flag.NewFlagSet("desktop", flag.ContinueOnError)
	flags.StringVar(&cfg.ID, "id", "", "names its folder")
	flags.Int64Var(&cfg.Memory, "memory", 0, "bytes of memory that its programs may use; 0 = no limit")
	flags.DurationVar(&cfg.Idle, "idle", 0, "how long it goes on without being used; 0 = for ever")
	flags.BoolVar(&cfg.NoSandbox, "no-sandbox", false, "Chromium may run without a sandbox of its own where it cannot have one: the place isolates it")
	probe := flags.Bool("probe", false, "say whether a desktop can be had here")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || !*probe && guest.CheckID(cfg.ID) != nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if *probe {
		fmt.Println(desktop.Probe(os.Getenv))
		return 0
	}
	return desktop.Run(cfg)
}

// runKernel serves one kernel, and returns its exit code.
func runKernel(args []string) int {
	spare()
	flags := flag.NewFlagSet("kernel", flag.ContinueOnError)
	memory := flags.Int64("memory", 0, "bytes of memory that the interpreter may use with what it starts; 0 = no limit")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	return kernel.Run(kernel.Config{Language: guest.KernelLanguage(flags.Arg(0)), In: os.Stdin, Out: os.Stdout, Memory: *memory})
}

// runFetch reads a page of the web, and returns the exit code.
func runFetch(args []string) int {
	spare()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	most := flags.Int("max-bytes", guest.MaxFetchedText, "bytes of the text that are printed")
	if err := flags.Parse(args); err != nil || flags.NArg() != 1 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if err := fetch.Run(ctx, fetch.Config{URL: flags.Arg(0), Most: *most, Out: os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, "parawork-guest:", err)
		return 1
	}
	return 0
}

// runTool runs a command line of the tools, and returns its exit code.
func runTool(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // it was removed
	}
	cfg := toolcmd.Config{Env: os.Getenv, Dir: dir, In: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if toolcmd.ServesLanguage(args) {
		return toolcmd.ServeLanguage(ctx, args, cfg)
	}
	return toolcmd.Run(ctx, args, cfg)
}

// runEdited has a file checked that an agent edited, as its hook.
func runEdited() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // it was removed
	}
	toolcmd.Edited(ctx, toolcmd.Config{Env: os.Getenv, Dir: dir, In: os.Stdin, Stdout: os.Stdout})
}

// runBeads runs the task tools as beads' program would be run, or that program itself where the project keeps its tasks with it.
func runBeads(args []string) int {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // it was removed
	}
	if own := toolcmd.OwnBeads(dir, args, os.Getenv("PATH")); own != "" {
		err := syscall.Exec(own, append([]string{toolcmd.Beads}, args...), os.Environ())
		fmt.Fprintln(os.Stderr, "bd:", err)
		return 126
	}
	return runTool(append([]string{toolcmd.Beads}, args...))
}

// runBridge joins standard input and output with a guest.
func runBridge(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	return bridge.Run(ctx, args, os.Stdin, os.Stdout)
}

// runAttend starts programs in a container for who knows its secret.
func runAttend(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return attend.Run(ctx, args)
}

// runEgressBridge carries connections of the sandbox's programs to the host.
func runEgressBridge(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	return egressbridge.Run(ctx, args, os.Stdin, os.Stdout)
}

// connect joins standard input and output with a host outside.
func connect(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	return relay.Connect(ctx, args, os.Getenv, os.Stdin, os.Stdout)
}

// options are the flags of serve.
type options struct {
	dir, root, home, sandbox, tokenFile string
	egress, call, callFile              string
	listen, bootfile, log, ended        string
	listenFD, tokenFD                   int
	ownEnv, ownNet, makeRoot, sealed    bool
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("parawork-guest serve", flag.ContinueOnError)
	fs.StringVar(&o.dir, "dir", "", "the guest's own folder")
	fs.StringVar(&o.root, "root", "", "the worktree")
	fs.BoolVar(&o.makeRoot, "make-root", false, "make the worktree's folder, empty, where it is missing: the sandbox has a disk of its own")
	fs.StringVar(&o.home, "home", "", "the agents' home, whose files the host may ask for")
	fs.StringVar(&o.sandbox, "sandbox", "", "id of the sandbox")
	fs.IntVar(&o.listenFD, "listen-fd", 3, "inherited listening socket")
	fs.StringVar(&o.call, "call", "", "the host's unix socket, to be called instead of listening")
	fs.StringVar(&o.callFile, "call-file", "", "file that says where the host is called over the network, besides listening: see guest/call")
	fs.StringVar(&o.listen, "listen", "", "unix socket to listen at, made anew")
	fs.BoolVar(&o.sealed, "sealed", false, "encrypt every pipe with the token: what carries it keeps a record")
	fs.StringVar(&o.bootfile, "boot-file", "", "file with the token and what all processes are given, removed when it was read")
	fs.StringVar(&o.log, "log", "", "file for what the guest itself says, instead of standard error")
	fs.StringVar(&o.ended, "ended", "", "file that is made when a host had the guest end")
	fs.BoolVar(&o.ownEnv, "own-env", false, "the environment is the place's own, as an image's is: processes get all of it")
	fs.BoolVar(&o.ownNet, "own-network", false, "the sandbox shares its loopback with nobody, as a virtual machine does: whatever listens there may be reached")
	fs.StringVar(&o.tokenFile, "token-file", "", "file with the token")
	fs.IntVar(&o.tokenFD, "token-fd", -1, "inherited descriptor to read the token from")
	fs.StringVar(&o.egress, "egress", "", "socket of the only way out, where the sandbox has no network of its own")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if o.dir == "" || o.root == "" || o.sandbox == "" || fs.NArg() > 0 {
		return o, errors.New("--dir, --root and --sandbox are required, and no other arguments are allowed")
	}
	return o, nil
}

func serve(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	given, err := secrets(o)
	if err != nil {
		return err
	}
	token := given.Token
	spare()
	stock()
	words, err := openLog(o.log)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(words, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if os.Getpid() == 1 {
		// The first process of a box has no session of its own yet, and what it starts beside the agents' programs is known by it.
		if _, err := syscall.Setsid(); err != nil && !errors.Is(err, syscall.EPERM) {
			return fmt.Errorf("starting a session: %w", err)
		}
	}
	if err := daemon.BecomeReaper(); err != nil {
		return fmt.Errorf("becoming the reaper of orphaned processes: %w", err)
	}
	if err := daemon.Conceal(); err != nil {
		log.Warn("guest could not be concealed", "error", err)
	}
	var l net.Listener
	if o.call != "" {
		l = reversedial.Listen(o.call, token)
	} else if o.listen != "" {
		if l, err = listenAt(o.listen); err != nil {
			return err
		}
	} else if l, err = inherited(o.listenFD); err != nil {
		return err
	}
	if o.sealed {
		l = seal.Listen(l, token)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// A guest outlives the terminal it was started from. The signal is caught, not ignored: programs would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	if o.makeRoot {
		if err := os.MkdirAll(o.root, 0o755); err != nil {
			return fmt.Errorf("creating the worktree's folder: %w", err)
		}
	}
	poller := changes.New(changes.Config{Root: o.root, Dir: filepath.Join(o.dir, "git"), Log: log})
	defer poller.Close()
	self, err := os.Executable()
	if err != nil {
		log.Warn("guest does not know its own program", "error", err) // then hooks do not work
	}
	out, err := openEgress(o.egress, log)
	if err != nil {
		return err
	}
	defer out.close()
	d, err := daemon.New(daemon.Config{Dir: o.dir, Root: o.root, Home: o.home, SandboxID: o.sandbox, Token: token, Build: version,
		Env: append(os.Environ(), given.Env...), OwnEnv: o.ownEnv, Self: self, Gate: o.egress, Proxy: out.url, OwnNet: o.egress != "" || o.ownNet, Changes: poller, Reap: runtime.GOOS == "linux", Log: log})
	if err != nil {
		return err
	}
	if err := daemon.WriteIdentity(o.dir, version, time.Now()); err != nil {
		return err
	}
	stopCalls := keepCalling(ctx, o, given)
	err = d.Serve(ctx, l)
	stopCalls()
	if err == nil && ctx.Err() == nil && o.ended != "" { // a host asked for it
		return os.WriteFile(o.ended, nil, 0o600)
	}
	return err
}

// spare keeps the program small: it moves bytes, and what it holds at rest is little. The runtime gives memory back
// early rather than let the heap double.
func spare() {
	if os.Getenv("GOMAXPROCS") == "" {
		// Two, however large the machine: one program at a time speaks, and there may be many guests.
		runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 2))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(64 << 20)
	}
}

// spareThreads is how many threads the guest has ready: where no process can be started any more none can be made either, and the
// runtime cannot go on without those it needs.
const spareThreads = 16

// stock makes threads, which the runtime keeps for when it needs some.
func stock() {
	var made, held sync.WaitGroup
	release := make(chan struct{})
	made.Add(spareThreads)
	for range spareThreads {
		held.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // locked at its end it would take the thread with it
			made.Done()
			<-release
		})
	}
	made.Wait()
	close(release)
	held.Wait()
}

// inherited takes over the listening socket the executor has made: its path may be longer than an address can hold.
func inherited(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "listener")
	if f == nil {
		return nil, fmt.Errorf("descriptor %d is not open: the guest is started with its listening socket", fd)
	}
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("taking over the listening socket: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // its file is the executor's
	}
	return l, nil
}

// maxToken bounds a token.
const maxToken = 4096

func readToken(o options) (string, error) {
	token := os.Getenv(tokenEnv)
	if err := os.Unsetenv(tokenEnv); err != nil {
		return "", err
	}
	var f *os.File
	switch {
	case o.tokenFile != "":
		file, err := os.Open(o.tokenFile)
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		f = file
	case o.tokenFD >= 0:
		f = os.NewFile(uintptr(o.tokenFD), "token")
	}
	if f != nil {
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, maxToken))
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		token = string(b)
	}
	if token = strings.TrimSpace(token); token == "" {
		return "", fmt.Errorf("no token: give --token-file, --token-fd or %s", tokenEnv)
	}
	return token, nil
}

var _ daemon.Changes = (*changes.Poller)(nil)
