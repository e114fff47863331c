// Package browser runs one Chromium for a sandbox. It is the program `parawork-guest browser`, one process beside the browser: it
// starts Chromium with a profile of its own, passes messages of the DevTools protocol between Chromium's debugging pipe and its own
// standard input and output, one a line, and ends Chromium when it uses too much memory, when nobody has sent it anything for a
// while, or when the program itself ends. No port is opened: other programs of the sandbox and other users of the machine have no
// way to the pipe.
//
// It goes on while the server restarts; the guest keeps what it says. Its own messages look like events of Chromium, with the
// methods guest.BrowserStarted, guest.BrowserDropped and guest.BrowserEnded.
package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/program"
	"github.com/parawork/parawork/guest/usage"
)

const (
	memoryPoll  = time.Second
	endPatience = 3 * time.Second // for Chromium to end by itself, and store its profile
)

// Config is what Run needs.
type Config struct {
	In  io.Reader // messages for Chromium, one a line
	Out io.Writer
	Env func(string) string

	ID        string        // names the profile's folder, together with a random part
	Memory    int64         // bytes that Chromium's processes may use together; 0 = no limit
	Idle      time.Duration // without a message for this long it ends; 0 = never
	NoSandbox bool          // Chromium may run without a sandbox of its own where it cannot have one
}

// Run runs Chromium until it ends, and returns the exit code of the program.
func Run(cfg Config) int {
	b := &browser{cfg: cfg, out: bufio.NewWriterSize(cfg.Out, 64<<10), ending: make(chan string, 8)}
	b.touch()
	reason, err := b.run()
	if err != nil {
		reason = err.Error()
	}
	b.say(guest.BrowserEnded, guest.BrowserEnd{Reason: reason})
	if err != nil {
		return 1
	}
	return 0
}

type browser struct {
	cfg    Config
	ending chan string // why it ends; the first one counts
	used   atomic.Int64
	stderr program.Tail

	mu  sync.Mutex // guards out
	out *bufio.Writer
}

func (b *browser) touch() { b.used.Store(time.Now().UnixNano()) }

// end has the browser end for a reason.
func (b *browser) end(reason string) {
	select {
	case b.ending <- reason:
	default:
	}
}

// say writes a message of our own.
func (b *browser) say(method string, params any) {
	raw, err := json.Marshal(struct {
		Method string `json:"method"`
		Params any    `json:"params"`
	}{method, params})
	if err == nil {
		b.write(raw)
	}
}

// write writes a line. An error means that nobody reads any more: then standard input ends, too.
func (b *browser) write(line []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = b.out.Write(line)
	_ = b.out.WriteByte('\n')
	_ = b.out.Flush()
}

// run starts Chromium and waits for its end. The error is one of the start.
func (b *browser) run() (reason string, err error) {
	path, err := Find(b.cfg.Env("PATH"))
	if err != nil {
		return "", err
	}
	bare, err := withoutSandbox(b.cfg.NoSandbox)
	if err != nil {
		return "", err
	}
	profile, err := makeProfile(b.cfg.ID)
	if err != nil {
		return "", fmt.Errorf("a folder for the browser's profile could not be made: %w", err)
	}
	defer func() { _ = os.RemoveAll(profile) }()
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("making a pipe: %w", err)
	}
	defer ourIn.Close()
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		_ = theirIn.Close()
		return "", fmt.Errorf("making a pipe: %w", err)
	}
	defer ourOut.Close()
	cmd := &exec.Cmd{Path: path, Args: append([]string{path}, headless(profile, bare, b.cfg.Env)...), Env: os.Environ(), Dir: profile,
		Stdout: &b.stderr, Stderr: &b.stderr, ExtraFiles: []*os.File{theirIn, theirOut}, WaitDelay: time.Second, SysProcAttr: program.OwnGroup()}
	err = program.StartAlong(cmd)
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		return "", fmt.Errorf("%s could not be started: %w", path, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	b.say(guest.BrowserStarted, guest.BrowserStart{Program: path, NoSandbox: bare})
	return b.serve(cmd, ourIn, ourOut, exited), nil
}

// serve passes messages on until something ends the browser, and returns when nothing of it is left.
func (b *browser) serve(cmd *exec.Cmd, toChromium io.WriteCloser, fromChromium io.ReadCloser, exited <-chan error) (reason string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	go b.down(toChromium) // blocks in a read of standard input, which ends with the program
	relayed := make(chan struct{})
	go func() { defer close(relayed); b.up(fromChromium) }()
	poll := time.NewTicker(memoryPoll)
	defer poll.Stop()
	for reason == "" {
		select {
		case err := <-exited:
			<-relayed
			return b.crashed(err)
		case <-relayed: // it has ended, or as good as
			select {
			case err := <-exited:
				return b.crashed(err)
			case <-time.After(endPatience):
				reason = "It closed its connection."
			}
		case reason = <-b.ending:
		case <-signals:
			reason = "It was closed."
		case <-poll.C:
			switch used := usage.Memory(cmd.Process.Pid); {
			case b.cfg.Memory > 0 && used > b.cfg.Memory:
				reason = fmt.Sprintf("It used %d MB of memory, more than its limit of %d MB.", used>>20, b.cfg.Memory>>20)
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			case b.cfg.Idle > 0 && time.Since(time.Unix(0, b.used.Load())) > b.cfg.Idle:
				reason = fmt.Sprintf("Nobody used it for %s.", b.cfg.Idle)
			}
		}
	}
	_ = syscall.Kill(cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-exited:
	case <-time.After(endPatience):
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the whole group
	_ = fromChromium.Close()
	<-relayed
	return reason
}

// crashed describes an end of Chromium that nobody asked for.
func (b *browser) crashed(err error) string {
	what := "It ended by itself."
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		what = fmt.Sprintf("It ended unexpectedly (%s).", e.ProcessState)
	}
	if words := b.stderr.LastLine(300); words != "" {
		what += " Its last words: " + words
	}
	return what
}

// down passes on lines of standard input.
func (b *browser) down(to io.Writer) {
	in := bufio.NewReaderSize(b.cfg.In, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			b.end("It was closed.")
			return
		}
		b.touch()
		line[len(line)-1] = 0
		if _, err := to.Write(line); err != nil {
			return // Chromium has ended
		}
	}
}

// up passes on Chromium's messages, but for those that are too long.
func (b *browser) up(from io.Reader) {
	r := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	dropped := 0
	for {
		piece, err := r.ReadSlice(0)
		if len(line)+len(piece) > guest.MaxBrowserMessage {
			dropped += len(line)
			line = line[:0]
		}
		if dropped > 0 {
			dropped += len(piece)
		} else {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return
		case dropped > 0:
			b.say(guest.BrowserDropped, guest.BrowserDrop{Bytes: dropped})
		default:
			b.write(bytes.ReplaceAll(line[:len(line)-1], []byte{'\n'}, []byte{' '}))
		}
		dropped, line = 0, line[:0]
		if cap(line) > 1<<20 {
			line = nil
		}
	}
}

// withoutSandbox reports whether Chromium must run without a sandbox of its own, and refuses that where nothing else isolates it.
func withoutSandbox(allowed bool) (bool, error) {
	why := ""
	switch {
	case os.Geteuid() == 0:
		why = "as root it has none"
	case !userNamespaces():
		why = "it needs user namespaces, which are not available here"
	default:
		return false, nil
	}
	if !allowed {
		return false, fmt.Errorf("Chromium cannot isolate web pages here: %s. Use a place that isolates, such as bubblewrap or docker", why)
	}
	return true, nil
}

// programs are the names of Chromium, the preferred first.
var programs = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "chrome-headless-shell", "headless_shell"}

// behind are the programs that scripts of distributions start: the scripts read files of /etc that not every sandbox has.
var behind = map[string]string{"/usr/bin/chromium": "/usr/lib/chromium/chromium"}

// Find returns the path of Chromium.
func Find(path string) (string, error) {
	for _, name := range programs {
		for _, dir := range filepath.SplitList(path) {
			if file := filepath.Join(dir, name); filepath.IsAbs(file) && program.Executable(file) {
				if real := behind[file]; real != "" && program.Executable(real) {
					return real, nil
				}
				return file, nil
			}
		}
	}
	for _, file := range applications {
		if program.Executable(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("Chromium was not found in PATH (%s). Install it, such as by `apt-get install chromium`, or in the image of the workspace", path)
}

// makeProfile makes a folder for the profile, and removes those that killed browsers of the same sandbox left.
func makeProfile(id string) (string, error) {
	prefix := "parawork-browser-" + id + "-"
	if old, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*")); err == nil {
		for _, dir := range old {
			_ = os.RemoveAll(dir)
		}
	}
	return os.MkdirTemp("", prefix)
}

// Windowed returns the arguments of a Chromium that shows windows on a desktop. noSandbox allows that it has no sandbox of its own.
func Windowed(profile string, noSandbox bool, env func(string) string) ([]string, error) {
	bare, err := withoutSandbox(noSandbox)
	return append(arguments(profile, bare, env), "--start-maximized"), err
}

// headless are the arguments of a Chromium that is used by its debugging pipe.
func headless(profile string, noSandbox bool, env func(string) string) []string {
	return append(arguments(profile, noSandbox, env), "--headless=new", "--remote-debugging-pipe", "--hide-scrollbars", "--window-size=1280,800", "about:blank")
}

// arguments are those of every Chromium.
func arguments(profile string, noSandbox bool, env func(string) string) []string {
	args := []string{
		"--user-data-dir=" + profile,
		"--no-first-run", "--no-default-browser-check", "--disable-dev-shm-usage", "--disable-gpu", "--mute-audio",
		"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-domain-reliability", "--disable-sync",
		"--disable-breakpad", "--disable-crash-reporter", "--disable-extensions", "--metrics-recording-only", "--password-store=basic", "--use-mock-keychain",
		"--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication",
		"--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--disk-cache-size=52428800",
		"--force-color-profile=srgb", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
	}
	if noSandbox {
		args = append(args, "--no-sandbox", "--test-type") // the latter hides a bar of warnings
	}
	proxy := ""
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if proxy == "" {
			proxy = env(name)
		}
	}
	if proxy != "" {
		args = append(args, "--proxy-server="+proxy)
		no := env("NO_PROXY")
		if no == "" {
			no = env("no_proxy")
		}
		args = append(args, "--proxy-bypass-list="+strings.ReplaceAll(no, ",", ";"))
	}
	return args
}
