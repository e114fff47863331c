package cli

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// options are the flags of a connected machine.
type options struct {
	which
	token, mode, image, network, access, share, quiet string
	capabilities, packages                            string
	file, proxy, ca                                   string
	folders                                           []string
	dangerous, remove, service, root                  bool
}

const codeFlags = "runner_flags_invalid"

// parseOptions parses them, and checks what can be checked without looking at the machine.
func (p *Program) parseOptions(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("parawork runner", flag.ContinueOnError)
	o.which.flags(fs)
	fs.StringVar(&o.token, "token", p.Env("PARAWORK_RUNNER_TOKEN"), "connects this machine the first time")
	fs.StringVar(&o.mode, "mode", "", "docker or bubblewrap")
	fs.StringVar(&o.image, "image", "", "the image of containers")
	fs.BoolVar(&o.root, "root", false, "agents are root in containers")
	fs.StringVar(&o.capabilities, "capabilities", "", "what root in containers may do as well")
	fs.StringVar(&o.packages, "packages", "", "packages that are installed in the image")
	fs.BoolVar(&o.dangerous, "dangerous", false, "without isolation")
	fs.StringVar(&o.network, "network", "", "open, host, none or names")
	fs.StringVar(&o.access, "access", "", "full, ask or read_only")
	fs.StringVar(&o.share, "share", "", "owner or team")
	fs.StringVar(&o.quiet, "quiet", "", "22:00-07:00")
	fs.StringVar(&o.file, "policy", "", "runner.json")
	fs.StringVar(&o.proxy, "proxy", "", "proxy to the server")
	fs.StringVar(&o.ca, "ca", "", "certificate authorities to trust")
	fs.BoolVar(&o.remove, "remove", false, "remove the sandboxes in the end")
	fs.BoolVar(&o.service, "service", false, "started by the system, not by hand")
	fs.Func("folder", "a folder that may be worked on", func(dir string) error {
		abs, err := filepath.Abs(dir)
		o.folders = append(o.folders, abs)
		return err
	})
	if _, err := p.parse(fs, args, 0); err != nil {
		return o, err
	}
	switch {
	case o.mode != "" && o.mode != string(wire.Docker) && o.mode != string(wire.Bubblewrap):
		return o, fault.New(fault.Invalid, codeFlags, "--mode must be docker or bubblewrap. Without isolation: --dangerous.")
	case o.dangerous && o.mode != "":
		return o, fault.New(fault.Invalid, codeFlags, "--dangerous has no isolation, and --mode %s has. Choose one.", o.mode)
	case o.dangerous && o.image != "":
		return o, fault.New(fault.Invalid, codeFlags, "--image is for Docker, and --dangerous runs without it. Choose one.")
	case o.image != "" && o.mode == string(wire.Bubblewrap):
		return o, fault.New(fault.Invalid, codeFlags, "--image is for Docker, and --mode bubblewrap runs without it. Choose one.")
	}
	if o.server == "" && o.token != "" {
		o.server = p.Env("PARAWORK_SERVER")
	}
	if o.image == "" && !o.dangerous && o.mode != string(wire.Bubblewrap) {
		o.image = p.Env("DOCKER_IMAGE")
	}
	if o.image != "" {
		o.mode = string(wire.Docker)
	}
	for _, path := range []*string{&o.file, &o.ca} {
		if *path != "" {
			abs, err := filepath.Abs(*path)
			if err != nil {
				return o, err
			}
			*path = abs
		}
	}
	return o, nil
}

// adjust applies the flags to a policy.
func (o *options) adjust(p *policy.Policy) {
	if o.image != "" {
		p.Image = o.image
	}
	p.Docker.Root = p.Docker.Root || o.root
	if o.capabilities != "" {
		p.Docker.Capabilities = splitList(o.capabilities)
	}
	if o.packages != "" {
		p.Docker.Packages = splitList(o.packages)
	}
	switch o.network {
	case "":
	case policy.NetworkOpen, policy.NetworkHost, policy.NetworkNone:
		p.Network = policy.Network{Mode: o.network, Allow: []string{}}
	default:
		p.Network = policy.Network{Mode: policy.NetworkAllow, Allow: splitList(o.network)}
	}
	if o.access != "" {
		p.Access = wire.Access(o.access)
	}
	if o.share != "" {
		p.Share = o.share
	}
	if q, err := policy.ParseQuiet(o.quiet); err == nil && o.quiet != "" {
		p.QuietHours = []policy.Quiet{q}
	}
	for _, dir := range o.folders {
		if !slices.ContainsFunc(p.Folders, func(f policy.Folder) bool { return f.Path == dir }) {
			p.Folders = append(p.Folders, policy.Folder{Path: dir, Name: filepath.Base(dir), Access: wire.Full})
		}
	}
}

// check rejects flags that no policy can have, by the flag's name.
func (o *options) check(home string) error {
	if o.quiet != "" {
		if _, err := policy.ParseQuiet(o.quiet); err != nil {
			return fault.New(fault.Invalid, codeFlags, "--quiet: %v.", err)
		}
	}
	p := policy.Default()
	o.adjust(&p)
	if err := p.Complete(home); err != nil {
		return fault.New(fault.Invalid, codeFlags, "%v.", err)
	}
	return nil
}

// given lists the flags that say what is allowed.
func (o *options) given() []string {
	var out []string
	for _, f := range []struct{ name, value string }{{"image", o.image}, {"root", map[bool]string{true: "true"}[o.root]}, {"capabilities", o.capabilities}, {"packages", o.packages}, {"network", o.network}, {"access", o.access}, {"share", o.share}, {"quiet", o.quiet},
		{"folder", strings.Join(o.folders, ", ")}} {
		if f.value != "" {
			out = append(out, fmt.Sprintf("--%s %s", f.name, f.value))
		}
	}
	return out
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
