package e2b

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/guestbin"
)

// BuildCommand is what makes the template of a size.
func BuildCommand(set Settings, cpus int, memoryMB int64) string {
	if cpus == 0 || cpus == set.CPUs && memoryMB == int64(set.MemoryMB) {
		return "parawork e2b template build"
	}
	return fmt.Sprintf("parawork e2b template build --size %dx%d", cpus, memoryMB)
}

// BuildSpec says what to build.
type BuildSpec struct {
	Size      executors.Size // 0 = the default size
	Name      string         // default: Settings.TemplateOf
	Image     string         // what it is made from: Debian, for E2B takes no other; default recipe.BaseImage
	Holds     recipe.Image
	GuestPath string        // "" = without the guest, which is uploaded then
	Force     bool          // do every step again
	PollEvery time.Duration // default 2 s
}

// Build makes a template and waits until it is ready. What the build prints goes to log.
func Build(ctx context.Context, set Settings, spec BuildSpec, log io.Writer) error {
	set, err := set.Normal()
	if err != nil {
		return err
	}
	if !set.on() {
		return cannot(nil, NoKey)
	}
	if spec.Size.CPUs == 0 {
		spec.Size = executors.Size{CPUs: set.CPUs, MemoryMB: int64(set.MemoryMB)}
	}
	if err := checkSize(spec.Size); err != nil {
		return err
	}
	spec.Name, spec.Image = cmp.Or(spec.Name, set.TemplateOf(spec.Size.CPUs, spec.Size.MemoryMB)), cmp.Or(spec.Image, recipe.BaseImage)
	spec.PollEvery = cmp.Or(spec.PollEvery, 2*time.Second)
	if err := spec.Holds.Check(); err != nil {
		return err
	}
	client := newHTTP(set)
	defer client.CloseIdleConnections()
	p := newPlane(set, client)
	fmt.Fprintf(log, "Building the template %s: %d vCPU, %d MiB.\n", spec.Name, spec.Size.CPUs, spec.Size.MemoryMB)
	b, err := p.begin(ctx, spec.Name, spec.Size.CPUs, spec.Size.MemoryMB)
	if err != nil {
		return inWords(err, set, spec.Size.CPUs, spec.Size.MemoryMB)
	}
	steps := templateSteps(spec.Holds)
	if spec.GuestPath != "" {
		s, err := p.giveGuest(ctx, b, spec.GuestPath)
		if err != nil {
			return err
		}
		steps = slices.Concat(s, steps)
	}
	if err := p.order(ctx, b, spec.Image, steps, spec.Force); err != nil {
		return inWords(err, set, spec.Size.CPUs, spec.Size.MemoryMB)
	}
	return p.follow(ctx, b, spec.PollEvery, log)
}

// checkSize says what E2B would say of a size.
func checkSize(s executors.Size) error {
	if s.CPUs < 1 || s.CPUs > 32 || s.CPUs > 1 && s.CPUs%2 != 0 {
		return fmt.Errorf("E2B's sandboxes have 1 vCPU or an even number of them, 32 at most, not %d", s.CPUs)
	}
	if s.MemoryMB < 128 || s.MemoryMB%2 != 0 {
		return fmt.Errorf("E2B's sandboxes have an even number of MiB, 128 at least, not %d", s.MemoryMB)
	}
	return nil
}

// templateSteps are the steps of every template: what every image of Parawork's holds, and the folders and the user of E2B's sandboxes.
func templateSteps(image recipe.Image) []step {
	var steps []step
	for _, command := range image.Commands() {
		steps = append(steps, step{Type: "RUN", Args: []string{command, "root"}})
	}
	env := step{Type: "ENV"}
	for _, v := range image.Env() {
		env.Args = append(env.Args, v.Name, v.Value)
	}
	return append(steps, env,
		step{Type: "RUN", Args: []string{"mkdir -p /work /var/lib/parawork && chown user:user /work /var/lib/parawork", "root"}},
		step{Type: "USER", Args: []string{sandboxUser}},
		step{Type: "WORKDIR", Args: []string{insideHome}},
		step{Type: "RUN", Args: []string{"git config --global init.defaultBranch main"}},
	)
}

// giveGuest uploads the guest's program and returns the steps that put it into the template.
func (p *plane) giveGuest(ctx context.Context, b build, path string) ([]step, error) {
	hash, err := guestbin.Hash(path)
	if err != nil {
		return nil, err
	}
	archive, err := packGuest(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(archive)
	name := hex.EncodeToString(sum[:])
	if err := p.give(ctx, b, name, int64(len(archive)), bytes.NewReader(archive)); err != nil {
		return nil, fmt.Errorf("uploading the guest: %w", err)
	}
	return []step{
		{Type: "COPY", Args: []string{guestEntry, templateGuest + hash, "root", "0755"}, Hash: name},
		{Type: "RUN", Args: []string{"chmod 0755 " + templateGuest + hash + " && ln -sfn " + templateGuest + hash + " " + executors.InsideCommand + " && " + templateGuest + hash + " version", "root"}},
	}, nil
}

// guestEntry is the guest's name in the archive.
const guestEntry = "parawork-guest"

// packGuest makes the archive. The same program makes the same bytes, so that what was uploaded once is not again.
func packGuest(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the guest: %w", err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	t := tar.NewWriter(z)
	err = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: guestEntry, Mode: 0o755, Size: int64(len(b))})
	if err == nil {
		_, err = t.Write(b)
	}
	if err = errors.Join(err, t.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("packing the guest: %w", err)
	}
	return out.Bytes(), nil
}

// follow prints a build's log until it has ended.
func (p *plane) follow(ctx context.Context, b build, every time.Duration, log io.Writer) error {
	seen, misses := 0, 0
	for {
		at, err := p.look(ctx, b, seen)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			if misses++; misses > 5 {
				return fmt.Errorf("asking how far the build is: %w", err)
			}
		default:
			misses = 0
		}
		for _, l := range at.Logs {
			fmt.Fprintf(log, "  %s\n", line(l.Message, 2000))
		}
		seen += len(at.Logs)
		switch at.State {
		case "ready":
			return nil
		case "error":
			where := ""
			if at.Reason.Step != "" {
				where = " at step " + line(at.Reason.Step, 100)
			}
			return fmt.Errorf("E2B could not build the template%s: %s", where, cmp.Or(line(at.Reason.Message, 2000), "it does not say why"))
		}
		if err := p.wait(ctx, every); err != nil {
			return err
		}
	}
}

// Templates lists those the key's team has.
func Templates(ctx context.Context, set Settings) ([]Template, error) {
	set, err := set.Normal()
	if err != nil {
		return nil, err
	}
	if !set.on() {
		return nil, cannot(nil, NoKey)
	}
	client := newHTTP(set)
	defer client.CloseIdleConnections()
	all, err := newPlane(set, client).templates(ctx)
	if err != nil {
		return nil, inWords(err, set, 0, 0)
	}
	slices.SortFunc(all, func(a, b Template) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}
