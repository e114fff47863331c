package cli

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// service is the program as something the system starts for its owner.
type service struct {
	name string   // of the unit, or the job
	file string   // the path of the service file
	args []string // the program and its flags
	env  []string // the environment it needs
	log  string
	home string
}

// kept are environment variables that a service needs as well: without them it would find neither the engine nor the agents' programs.
var kept = []string{"PATH", "DOCKER_HOST", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "PARAWORK_RUNNER_DIR", "LANG"}

const codeService = "runner_service_failed"

// serviceOf describes the service of a machine, run by the program at self.
func (p *Program) serviceOf(id *identity.Identity, self string) (service, error) {
	home, err := identity.Home(p.Env)
	if err != nil {
		return service{}, err
	}
	server, machine := filepath.Base(filepath.Dir(id.Dir)), filepath.Base(id.Dir)
	s := service{home: home, log: filepath.Join(id.Dir, "service.log"), args: []string{self, "runner", "--service", "--server", id.Server, "--name", id.Name}}
	if id.Mode == wire.Direct {
		s.args = append(s.args, "--dangerous")
	}
	for _, name := range kept {
		if v := p.Env(name); v != "" && !strings.ContainsAny(v, "\n\r\x00") {
			s.env = append(s.env, name+"="+v)
		}
	}
	if runtime.GOOS == "darwin" {
		s.name = "dev.parawork.runner." + server + "." + machine
		s.file = filepath.Join(home, "Library", "LaunchAgents", s.name+".plist")
		return s, nil
	}
	config := p.Env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	s.name = "parawork-runner-" + server + "-" + machine + ".service"
	s.file = filepath.Join(config, "systemd", "user", s.name)
	return s, nil
}

// unit returns the service file for systemd. Stopping it ends only the program itself: guests live on, as after any other end of it. An
// intended end - by stop, or by the server that disconnected the machine - causes no restart.
func (s service) unit(name string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "[Unit]\nDescription=Parawork: this machine as a place to work (%s)\nAfter=network-online.target\n\n[Service]\n", systemdText(name))
	var args []string
	for _, a := range s.args {
		args = append(args, systemdQuote(strings.ReplaceAll(a, "$", "$$"))) // systemd expands variables there, and only there
	}
	fmt.Fprintf(&b, "ExecStart=%s\n", strings.Join(args, " "))
	for _, e := range s.env {
		fmt.Fprintf(&b, "Environment=%s\n", systemdQuote(e))
	}
	b.WriteString("Restart=on-failure\nRestartSec=5\nKillMode=process\nKillSignal=SIGTERM\nDelegate=yes\n\n[Install]\nWantedBy=default.target\n")
	return b.Bytes()
}

// systemdQuote quotes a word so that systemd takes it literally, without specifiers (systemd.syntax(7), systemd.unit(5)).
func systemdQuote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(text) + `"`
}

func systemdText(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// plist returns the service file for launchd.
func (s service) plist() []byte {
	var b bytes.Buffer
	text := func(v string) string {
		var e bytes.Buffer
		_ = xml.EscapeText(&e, []byte(v)) // a write to a buffer never fails
		return "<string>" + e.String() + "</string>"
	}
	b.WriteString(xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n<plist version=\"1.0\">\n<dict>\n")
	fmt.Fprintf(&b, "  <key>Label</key>%s\n  <key>ProgramArguments</key>\n  <array>\n", text(s.name))
	for _, a := range s.args {
		fmt.Fprintf(&b, "    %s\n", text(a))
	}
	b.WriteString("  </array>\n  <key>EnvironmentVariables</key>\n  <dict>\n")
	for _, e := range s.env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&b, "    <key>%s</key>%s\n", name, text(value))
	}
	b.WriteString("  </dict>\n  <key>RunAtLoad</key><true/>\n  <key>KeepAlive</key>\n  <dict><key>SuccessfulExit</key><false/></dict>\n")
	b.WriteString("  <key>AbandonProcessGroup</key><true/>\n  <key>ProcessType</key><string>Interactive</string>\n")
	fmt.Fprintf(&b, "  <key>StandardOutPath</key>%s\n  <key>StandardErrorPath</key>%s\n</dict>\n</plist>\n", text(s.log), text(s.log))
	return b.Bytes()
}

// install makes the system start the program with this machine.
func (p *Program) install(ctx context.Context, args []string) error {
	var w which
	fl := flag.NewFlagSet("parawork runner install", flag.ContinueOnError)
	w.flags(fl)
	show := fl.Bool("print", false, "print the service's file and change nothing")
	dangerous := fl.Bool("dangerous", false, "required again for a machine without isolation")
	if _, err := p.parse(fl, args, 0); err != nil {
		return err
	}
	id, err := p.find(w)
	if err != nil {
		return err
	}
	if id.Mode == wire.Direct && !*dangerous {
		return fault.New(fault.Invalid, codeFlags, "%q runs without isolation. As a service it does so each time this machine starts: confirm that with --dangerous.", id.Name)
	}
	self, err := p.settled(*show)
	if err != nil {
		return err
	}
	s, err := p.serviceOf(id, self)
	if err != nil {
		return err
	}
	text := s.unit(id.Name)
	if runtime.GOOS == "darwin" {
		text = s.plist()
	}
	if *show {
		_, err := p.Stdout.Write(text)
		return err
	}
	if pid := holder(id.Dir); pid > 0 && !p.active(ctx, s) {
		return fault.New(fault.Conflict, "runner_running", "The program already runs (process %d). Stop it first: parawork runner stop%s. What runs in its sandboxes goes on.", pid, namely(id))
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(s.file, text, 0o600); err != nil { // a proxy's address may contain a password
		return err
	}
	if err := os.Chmod(s.file, 0o600); err != nil {
		return err
	}
	if err := p.enable(ctx, s); err != nil {
		return fault.New(fault.Unavailable, codeService, "The service is written to %s, but the system does not start it: %v. Without a service, keep `parawork runner%s` running in a terminal, such as tmux.", s.file, err, namely(id))
	}
	p.say("%s starts with this machine from now on, and runs already (%s).", id.Name, s.name)
	if runtime.GOOS != "darwin" {
		p.linger(ctx)
		p.say("Its log: journalctl --user -u %s", s.name)
	} else {
		p.say("Its log: %s", p.short(s.log))
	}
	return nil
}

// settled returns a permanent path of this program: it copies a download to a folder of ours.
func (p *Program) settled(look bool) (string, error) {
	self, err := p.Self()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	root, err := identity.Root(p.Env)
	if err != nil {
		return "", err
	}
	to := filepath.Join(filepath.Dir(root), "bin", "parawork")
	if self == to || strings.HasPrefix(self, "/usr/") || strings.HasPrefix(self, "/opt/") {
		return self, nil
	}
	if look {
		return to, nil
	}
	return to, copyProgram(self, to)
}

// copyProgram copies a program to a path, atomically: a running copy goes on.
func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return putProgram(in, to)
}

// putProgram writes a program to a path, atomically.
func putProgram(in io.Reader, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := atomicfile.CopyDurable(to, in, 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", to, err)
	}
	return nil
}

func (p *Program) enable(ctx context.Context, s service) error {
	if runtime.GOOS == "darwin" {
		domain := fmt.Sprintf("gui/%d", os.Getuid())
		_, _ = p.Exec(ctx, "launchctl", "bootout", domain+"/"+s.name) // it may not exist
		return said(p.Exec(ctx, "launchctl", "bootstrap", domain, s.file))
	}
	if err := said(p.Exec(ctx, "systemctl", "--user", "daemon-reload")); err != nil {
		return err
	}
	return said(p.Exec(ctx, "systemctl", "--user", "enable", "--now", s.name))
}

// active reports whether the service runs now.
func (p *Program) active(ctx context.Context, s service) bool {
	if runtime.GOOS == "darwin" {
		out, err := p.Exec(ctx, "launchctl", "print", fmt.Sprintf("gui/%d/%s", os.Getuid(), s.name))
		return err == nil && strings.Contains(out, "state = running")
	}
	out, err := p.Exec(ctx, "systemctl", "--user", "is-active", s.name)
	return err == nil && out == "active"
}

// linger makes systemd start the user's services without a login, or says how to do that.
func (p *Program) linger(ctx context.Context) {
	who, err := user.Current()
	if err != nil {
		return
	}
	if out, err := p.Exec(ctx, "loginctl", "show-user", who.Username, "--property=Linger"); err == nil && out == "Linger=yes" {
		return
	}
	if _, err := p.Exec(ctx, "loginctl", "enable-linger", who.Username); err != nil {
		p.say("It starts when you log in, and ends when you log out. To run it without a login: sudo loginctl enable-linger %s", who.Username)
	}
}

// said joins an error with the output of the program that failed.
func said(out string, err error) error {
	if err != nil && out != "" {
		return fmt.Errorf("%w: %s", err, out)
	}
	return err
}

// uninstall removes the service; the machine stays connected to its server when it is started by hand.
func (p *Program) uninstall(ctx context.Context, args []string) error {
	var w which
	fl := flag.NewFlagSet("parawork runner uninstall", flag.ContinueOnError)
	w.flags(fl)
	if _, err := p.parse(fl, args, 0); err != nil {
		return err
	}
	id, err := p.find(w)
	if err != nil {
		return err
	}
	there, err := p.removeService(ctx, id)
	if err != nil {
		return err
	}
	if !there {
		p.say("%s is not installed as a service on this machine.", id.Name)
		return nil
	}
	p.say("%s no longer starts with this machine, and is offline now. What runs in its sandboxes goes on until you stop it.", id.Name)
	return nil
}

// removeService removes the service and reports whether there was one.
func (p *Program) removeService(ctx context.Context, id *identity.Identity) (bool, error) {
	s, err := p.serviceOf(id, "")
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(s.file); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if runtime.GOOS == "darwin" {
		_, _ = p.Exec(ctx, "launchctl", "bootout", fmt.Sprintf("gui/%d/%s", os.Getuid(), s.name)) // it may not run
	} else if err := said(p.Exec(ctx, "systemctl", "--user", "disable", "--now", s.name)); err != nil {
		fmt.Fprintf(p.Stderr, "parawork runner: %v\n", err) // remove its file all the same
	}
	if err := os.Remove(s.file); err != nil {
		return true, err
	}
	if runtime.GOOS != "darwin" {
		_, _ = p.Exec(ctx, "systemctl", "--user", "daemon-reload") // systemd forgets it later on its own
	}
	return true, nil
}
