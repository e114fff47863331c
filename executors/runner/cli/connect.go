package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// connect is `parawork runner`: it connects this machine, the first time with a token, and runs until it is ended.
func (p *Program) connect(ctx context.Context, args []string) error {
	o, err := p.parseOptions(args)
	if err != nil {
		return err
	}
	home, err := identity.Home(p.Env)
	if err != nil {
		return err
	}
	if err := o.check(home); err != nil {
		return err
	}
	root, err := identity.Root(p.Env)
	if err != nil {
		return err
	}
	if o.server != "" {
		if o.server, err = identity.Address(o.server); err != nil {
			return err
		}
	}
	ctx, catch := p.catch(ctx)
	defer catch.release()
	id, err := p.identify(ctx, &o, root, home)
	if err != nil {
		return err
	}
	l, err := takeLock(id.Dir)
	if err != nil {
		return err
	}
	if l == nil {
		return fault.New(fault.Conflict, "runner_running", "This machine's program already runs (process %d). See parawork runner status%s, or end it with parawork runner stop.", holder(id.Dir), which{id.Server, id.Name}.words())
	}
	defer l.release()
	r, err := p.prepare(ctx, o, id, home)
	if err != nil || r == nil {
		return err
	}
	defer r.close()
	return r.run(ctx, catch)
}

func (w which) words() string { return fmt.Sprintf(" --server %s --name %q", w.server, w.name) }

// identify returns this machine's identity: the stored one, or a new one from the token.
func (p *Program) identify(ctx context.Context, o *options, root, home string) (*identity.Identity, error) {
	if o.token == "" {
		id, err := identity.Load(root, o.server, o.name)
		if err != nil {
			return nil, err
		}
		return id, o.same(id)
	}
	if o.server == "" {
		return nil, fault.New(fault.Invalid, codeFlags, "--token needs --server: run the whole line that the Machines page shows.")
	}
	if id := identity.Enrolled(root, o.server, o.token); id != nil { // the same line again
		return id, o.same(id)
	}
	return p.enrol(ctx, o, root, home)
}

// same rejects flags that would change what this machine is.
func (o *options) same(id *identity.Identity) error {
	switch {
	case id.Mode == wire.Direct && !o.dangerous:
		return fault.New(fault.Invalid, codeFlags, "%q was connected without isolation. Add --dangerous again to start it: agents can then do whatever you can do on this machine.", id.Name)
	case id.Mode != wire.Direct && id.Mode != "" && o.dangerous:
		return fault.New(fault.Invalid, codeFlags, "%q was connected with isolation (%s), and its work is stored there. To run without isolation, connect this machine once more, with another --name and a token of its own.", id.Name, modeName(id.Mode))
	case id.Mode == wire.Bubblewrap && o.image != "":
		return fault.New(fault.Invalid, codeFlags, "%q runs in process sandboxes, which have no image. Leave --image out, or connect it once more, with another --name, to run in Docker.", id.Name)
	}
	return nil
}

// enrol connects this machine the first time, or gives it a new key. Before it uses up the token, it makes sure that something can run here.
func (p *Program) enrol(ctx context.Context, o *options, root, home string) (*identity.Identity, error) {
	if _, err := wire.ParseToken(o.token); err != nil {
		return nil, fault.New(fault.Invalid, codeFlags, "--token: %v.", err)
	}
	if strings.HasPrefix(o.server, "http://") && !loopback(o.server) {
		p.say("WARNING: the connection to %s is not encrypted. Whoever listens can take the token. What comes after it is encrypted.", o.server)
	}
	pol := policy.Default()
	if o.file != "" {
		var err error
		if pol, err = policy.Load(o.file, home); err != nil {
			return nil, err
		}
	}
	o.adjust(&pol)
	if err := pol.Complete(home); err != nil {
		return nil, fault.New(fault.Invalid, codeFlags, "%v.", err)
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	mode, err := p.decide(ctx, o, pol, root)
	if err != nil {
		return nil, err
	}
	network, err := pol.NetworkFor(mode)
	if err != nil {
		return nil, err
	}
	client, err := p.client(o.proxy, o.ca)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	hello := wire.Hello{Version: wire.Version, Build: p.Version, OS: runtime.GOOS, Arch: runtime.GOARCH, Hostname: policy.Clean(host, 200), Name: o.name, Mode: mode,
		Access: pol.Access, Share: pol.Share, Network: network.Mode, Allow: network.Allow,
		QuietHours: pol.QuietWords(), Limits: pol.Limits.Wire(), CPUs: runtime.NumCPU(), Folders: []wire.Folder{}} // the rest is printed when it connects
	if mode == wire.Docker {
		hello.Image = pol.Image
	}
	id, err := identity.Enrol(ctx, identity.EnrolConfig{Root: root, Server: o.server, Token: o.token, Name: o.name, Hello: hello, HTTP: client, CA: o.ca, Proxy: o.proxy})
	if err != nil {
		return nil, err
	}
	if id.Mode != "" && id.Mode != mode { // a new key for a machine that was connected before: its work is where it was
		mode = id.Mode
		if err := o.same(id); err != nil {
			return nil, err
		}
	}
	id.Mode = mode
	if o.file != "" {
		id.Policy = o.file
	}
	if err := id.Save(); err != nil {
		return nil, err
	}
	p.say("Connected to %s as %q.", id.Server, id.Name)
	return id, p.writePolicy(id, pol)
}

// decide chooses the mode in which the machine runs.
func (p *Program) decide(ctx context.Context, o *options, pol policy.Policy, root string) (wire.Mode, error) {
	if o.dangerous {
		if !slices.Contains(pol.Modes, wire.Direct) {
			return "", fault.New(fault.Forbidden, codeFlags, "--dangerous is not allowed: %s does not list direct in its modes.", o.file)
		}
		return wire.Direct, nil
	}
	if o.mode != "" && !slices.Contains(pol.Modes, wire.Mode(o.mode)) {
		return "", fault.New(fault.Forbidden, codeFlags, "--mode %s is not allowed: %s does not list it in its modes.", o.mode, o.file)
	}
	dir, err := os.MkdirTemp(root, ".try-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	mode, all := p.choose(ctx, pol, wire.Mode(o.mode), dir, slog.New(slog.DiscardHandler))
	if mode == "" {
		return "", noPlace(all)
	}
	for _, t := range all {
		p.say("%s cannot be used: %s. Using %s.", modeName(t.mode), strings.TrimSuffix(t.reason, "."), modeName(mode))
	}
	return mode, nil
}

// policyFile returns the path of a machine's policy file.
func policyFile(id *identity.Identity) string {
	if id.Policy != "" {
		return id.Policy
	}
	return filepath.Join(id.Dir, "runner.json")
}

// writePolicy writes the owner's policy file from the flags of the first start, unless there is one.
func (p *Program) writePolicy(id *identity.Identity, pol policy.Policy) error {
	f, err := os.OpenFile(policyFile(id), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(pol.JSON())
	return errors.Join(err, f.Sync(), f.Close())
}
