// Package desktop runs one desktop for a sandbox: an X server that is a VNC server too (TigerVNC), a small window manager, and the programs
// it is asked to start, such as a Chromium with windows. It is the program `parawork-guest desktop`, whose end ends all of them. It ends
// when it is stopped, when one of the two servers ends, when the programs use too much memory, and when nobody has used it for a while.
//
// It goes on while the server of Parawork restarts. No port is opened: see guest.DesktopSocket.
//
// Goroutines: one for each program, which waits for its end; one accepts requests, and each request has one, which ends within
// controlPatience.
package desktop

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/browser"
	"github.com/parawork/parawork/guest/program"
	"github.com/parawork/parawork/guest/usage"
)

const (
	poll            = time.Second
	startPatience   = 20 * time.Second
	controlPatience = 10 * time.Second
	maxControls     = 32
)

// Config is what Run needs.
type Config struct {
	Out io.Writer
	Env func(string) string

	ID        string        // names the desktop's folder
	Memory    int64         // bytes that all its processes may use together; 0 = no limit
	Idle      time.Duration // without a request for this long it ends; 0 = never
	NoSandbox bool          // Chromium may run without a sandbox of its own where it cannot have one
}

// programs are what a desktop cannot do without: names in PATH, and the packages of Debian that have them.
var programs = []struct {
	names []string
	pkg   string
}{
	{[]string{"Xvnc", "Xtigervnc"}, "tigervnc-standalone-server"},
	{[]string{"openbox"}, "openbox"},
}

// find returns the paths of programs.
func find(path string) (found []string, err error) {
	var missing []string
	for _, p := range programs {
		file := ""
		for _, name := range p.names {
			for _, dir := range filepath.SplitList(path) {
				if f := filepath.Join(dir, name); file == "" && filepath.IsAbs(f) && program.Executable(f) {
					file = f
				}
			}
		}
		if file == "" {
			missing = append(missing, p.pkg)
		}
		found = append(found, file)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("a desktop needs programs that are missing here. Install them, such as by `apt-get install %s`, or in the image of the workspace", strings.Join(missing, " "))
	}
	return found, nil
}

// Probe returns guest.DesktopReady, or what a desktop lacks here.
func Probe(env func(string) string) string {
	if _, err := find(env("PATH")); err != nil {
		return err.Error()
	}
	return guest.DesktopReady
}

// Run runs a desktop until it ends, and returns the exit code of the program.
func Run(cfg Config) int {
	d := &desktop{cfg: cfg, dir: guest.DesktopDir(cfg.ID), ending: make(chan error, 8), env: os.Environ()}
	d.touch()
	err := d.run()
	d.kill()
	if err != nil {
		fmt.Fprintln(cfg.Out, strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	return 0
}

type desktop struct {
	cfg     Config
	dir     string
	display string
	env     []string   // of the programs
	ending  chan error // why it ends; the first one counts
	used    atomic.Int64

	mu      sync.Mutex
	running map[*exec.Cmd]bool
	asked   int // of running, those that were asked for
	ended   bool
}

func (d *desktop) touch() { d.used.Store(time.Now().UnixNano()) }

// end has the desktop end for a reason.
func (d *desktop) end(why error) {
	select {
	case d.ending <- why:
	default:
	}
}

// run starts everything, says so, and waits until something ends the desktop.
func (d *desktop) run() error {
	paths, err := find(d.cfg.Env("PATH"))
	if err != nil {
		return err
	}
	if err := d.makeDir(); err != nil {
		return fmt.Errorf("a folder for the desktop could not be made: %w", err)
	}
	defer func() { _ = os.RemoveAll(d.dir) }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := d.startServer(paths[0]); err != nil {
		return err
	}
	if err := d.start(&exec.Cmd{Path: paths[1], Args: []string{"openbox", "--sm-disable", "--config-file", filepath.Join(d.dir, "openbox.xml")}}, errors.New("the window manager ended")); err != nil {
		return err
	}
	l, err := net.Listen("unix", filepath.Join(d.dir, string(guest.DesktopControl)))
	if err != nil {
		return fmt.Errorf("listening at the desktop's socket: %w", err)
	}
	defer l.Close()
	go d.accept(l)
	fmt.Fprintln(d.cfg.Out, guest.DesktopStarted)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		select {
		case err := <-d.ending:
			return err
		case <-signals:
			return nil
		case <-tick.C:
			switch used := usage.Memory(os.Getpid()); {
			case d.cfg.Memory > 0 && used > d.cfg.Memory:
				return fmt.Errorf("its programs used %d MB of memory, more than the limit of %d MB", used>>20, d.cfg.Memory>>20)
			case d.cfg.Idle > 0 && time.Since(time.Unix(0, d.used.Load())) > d.cfg.Idle:
				return nil
			}
		}
	}
}

// makeDir makes the desktop's folder anew: a killed desktop of the same workspace may have left one.
func (d *desktop) makeDir() error {
	_ = os.RemoveAll(d.dir)
	if err := os.Mkdir(d.dir, 0o700); err != nil {
		return err // also when it is somebody else's
	}
	cookie := make([]byte, 16)
	_, _ = rand.Read(cookie)
	// A record of Xauthority: any family, no address, any display.
	auth := binary.BigEndian.AppendUint16(nil, 0xffff)
	for _, field := range []string{"", "", "MIT-MAGIC-COOKIE-1", string(cookie)} {
		auth = binary.BigEndian.AppendUint16(auth, uint16(len(field)))
		auth = append(auth, field...)
	}
	return errors.Join(os.WriteFile(d.xauthority(), auth, 0o600),
		os.WriteFile(filepath.Join(d.dir, "openbox.xml"), []byte(openboxConfig), 0o600))
}

func (d *desktop) xauthority() string { return filepath.Join(d.dir, "xauthority") }

// startServer starts the X server and waits until it can be used.
func (d *desktop) startServer(path string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer r.Close()
	cmd := &exec.Cmd{Path: path, Args: []string{"Xvnc", "-displayfd", "3", "-geometry", fmt.Sprintf("%dx%d", guest.DesktopWidth, guest.DesktopHeight), "-depth", "24",
		"-rfbport", "-1", "-rfbunixpath", filepath.Join(d.dir, string(guest.DesktopVNC)), "-rfbunixmode", "0600", "-SecurityTypes", "None",
		"-auth", d.xauthority(), "-nolisten", "tcp", "-nolisten", "local", "-AlwaysShared", "-AcceptSetDesktopSize=0", "-noreset", "-s", "0", "-desktop", "Parawork"},
		ExtraFiles: []*os.File{w}}
	err = d.start(cmd, errors.New("the X server ended"))
	_ = w.Close()
	if err != nil {
		return err
	}
	_ = r.SetReadDeadline(time.Now().Add(startPatience))
	line, err := bufio.NewReader(io.LimitReader(r, 20)).ReadString('\n')
	number, numberErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || numberErr != nil {
		select {
		case err = <-d.ending: // says more
		case <-time.After(time.Second):
		}
		return fmt.Errorf("the X server could not be started: %w", errors.Join(err, numberErr))
	}
	d.display = ":" + strconv.Itoa(number)
	d.env = append(d.env, "DISPLAY="+d.display, "XAUTHORITY="+d.xauthority())
	return nil
}

// start starts a program. essential is why the desktop ends with it; nil when it goes on.
func (d *desktop) start(cmd *exec.Cmd, essential error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ended:
		return errors.New("the desktop has ended")
	case essential == nil && d.asked >= guest.MaxDesktopPrograms:
		return fmt.Errorf("%d programs run on the desktop, which is the limit: close some first", guest.MaxDesktopPrograms)
	}
	words := &program.Tail{}
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr, cmd.WaitDelay = d.env, words, words, program.OwnGroup(), time.Second
	if err := program.StartAlong(cmd); err != nil {
		return fmt.Errorf("%s could not be started: %w", cmd.Path, err)
	}
	if d.running == nil {
		d.running = map[*exec.Cmd]bool{}
	}
	d.running[cmd] = true
	if essential == nil {
		d.asked++
	}
	go func() {
		_ = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it started and left
		d.mu.Lock()
		delete(d.running, cmd)
		if essential == nil {
			d.asked--
		}
		d.mu.Unlock()
		if essential != nil {
			d.end(fmt.Errorf("%w (%s). %s", essential, cmd.ProcessState, words.Last(400)))
		}
	}()
	return nil
}

// kill ends all programs.
func (d *desktop) kill() {
	d.signal(syscall.SIGTERM)
	for range 20 {
		if d.left() == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	d.signal(syscall.SIGKILL)
}

func (d *desktop) left() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.running)
}

func (d *desktop) signal(s syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	for cmd := range d.running {
		_ = syscall.Kill(-cmd.Process.Pid, s)
	}
}

// accept serves requests until the listener is closed.
func (d *desktop) accept(l net.Listener) {
	slots := make(chan struct{}, maxControls)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(controlPatience))
			line, err := bufio.NewReader(io.LimitReader(conn, guest.MaxDesktopRequest)).ReadBytes('\n')
			if err != nil {
				return
			}
			var req guest.DesktopRequest
			answer := guest.DesktopAnswer{Display: d.display, XAuthority: d.xauthority()}
			_, noChromium := browser.Find(d.cfg.Env("PATH"))
			answer.Chromium = noChromium == nil
			if err = json.Unmarshal(line, &req); err == nil {
				if !req.Look {
					d.touch()
				}
				err = d.do(req)
			}
			if err != nil {
				answer.Error = err.Error()
				answer.Error = answer.Error[:min(len(answer.Error), 2000)]
			}
			raw, _ := json.Marshal(answer)
			_, _ = conn.Write(append(raw, '\n'))
		}()
	}
}

// do does what a request asks for.
func (d *desktop) do(req guest.DesktopRequest) error {
	switch {
	case len(req.Run) > 0:
		path, err := exec.LookPath(req.Run[0])
		if err != nil {
			return fmt.Errorf("%s was not found in PATH", req.Run[0])
		}
		return d.start(&exec.Cmd{Path: path, Args: req.Run}, nil)
	case req.URL != "":
		path, err := browser.Find(d.cfg.Env("PATH"))
		if err != nil {
			return err
		}
		args, err := browser.Windowed(filepath.Join(d.dir, "chromium"), d.cfg.NoSandbox, d.cfg.Env)
		if err != nil {
			return err
		}
		return d.start(&exec.Cmd{Path: path, Args: append(append([]string{path}, args...), req.URL)}, nil)
	}
	return nil
}
