package images

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/fault"
)

// labelProject is the label of images that were built for a project, intermediate ones as well (executors/docker has the same).
const labelProject = "parawork.project"

// judged is an image a project may use.
type judged struct {
	Image
	public bool // because its registry gives it to everybody, not because of the operator or the project's own builds
}

// judge finds the image a name means and decides whether a project may use it, from what the engine knows about that exact image: which
// project it was built for, whatever name points at it; then whether the operator lists it; else whether its registry gives it to everybody
// without an account. asked is an image already found public, which is not checked again. pull pulls a missing image, as builds do.
func (s *Service) judge(ctx context.Context, name, projectID, asked string, pull io.Writer) (judged, error) {
	if err := checkName(name, projectID); err != nil {
		return judged{}, err
	}
	listed, err := s.listed(ctx, name)
	if err != nil {
		return judged{}, err
	}
	img, err := s.cfg.Builder.Image(ctx, name)
	if !listed && !ofProject(name) && s.cfg.Reach != nil {
		if err := s.cfg.Reach(ctx, registryOf(name)); err != nil {
			return judged{}, err
		}
	}
	fetched := false
	if fault.CodeOf(err) == "image_missing" && pull != nil && !ofProject(name) {
		fmt.Fprintf(pull, "Fetching %s\n", name)
		if err = s.cfg.Builder.Pull(ctx, name, pull); err == nil {
			fetched = true // without an account, so it belongs to nobody
			img, err = s.cfg.Builder.Image(ctx, name)
		}
	}
	if err != nil {
		return judged{}, err
	}
	if err := checkOwner(img, name, projectID); err != nil {
		return judged{}, err
	}
	switch {
	case img.Project == projectID, listed, fetched:
		return judged{Image: img}, nil
	case ofProject(name):
		return judged{}, foreign(name)
	case asked != "" && asked == img.ID:
		return judged{img, true}, nil
	}
	for _, digest := range img.Digests { // of this image and this repository, whose registry is asked
		public, err := s.cfg.Builder.Public(ctx, digest)
		if err != nil {
			return judged{}, fault.Wrap(err, fault.Forbidden, "image_not_allowed", "The image %q is on this server, and its registry could not be asked whether everybody "+
				"may have it. Try again, or have an operator list it in sandboxing.docker.hostImages.", clip(name, 300)).With("field", "image")
		}
		if public {
			return judged{img, true}, nil
		}
	}
	return judged{}, fault.New(fault.Forbidden, "image_not_allowed", "The image %q is on this server, and no registry gives it to everybody. "+
		"Projects may use it once an operator lists it in sandboxing.docker.hostImages.", clip(name, 300)).With("field", "image")
}

// registryOf returns the host, and port, of a name's registry; "" is the default registry.
func registryOf(name string) string {
	host, _, ok := strings.Cut(name, "/")
	if !ok || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return ""
	}
	return host
}

// checkOwner rejects an image that was built for another project, whatever its name.
func checkOwner(img Image, name, projectID string) error {
	if img.Project != "" && img.Project != projectID {
		return foreign(name)
	}
	for _, other := range slices.Concat(img.Tags, img.Digests) {
		if checkForeign(other, projectID) != nil {
			return foreign(name)
		}
	}
	return nil
}

// listed says whether the operator lets projects use the image of this name. Without a list, all images are allowed while there is one team.
func (s *Service) listed(ctx context.Context, name string) (bool, error) {
	if Listed(append([]string{s.cfg.Default}, s.cfg.HostImages...), name) {
		return true, nil
	}
	if len(s.cfg.HostImages) > 0 || s.cfg.Teams == nil {
		return len(s.cfg.HostImages) == 0, nil
	}
	n, err := s.cfg.Teams(ctx)
	return n <= 1, err
}

// Listed says whether one of the patterns of sandboxing.docker.hostImages matches a name: the name with its tag, without one for every tag,
// or with * in it, which stands for all but a slash; a * alone matches everything.
func Listed(patterns []string, name string) bool {
	full := name
	bare, _, digested := strings.Cut(name, "@")
	if i := strings.LastIndex(bare, ":"); i > strings.LastIndex(bare, "/") {
		bare = bare[:i]
	} else if !digested {
		full += ":latest"
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		if p == "*" {
			return true
		}
		withTag, _ := path.Match(p, full)
		withoutTag, _ := path.Match(p, bare)
		return p != "" && (withTag || withoutTag)
	})
}

// written is a Dockerfile rewritten for the engine.
type written struct {
	text    string
	noCache bool // a base image has ONBUILD commands, whose results projects do not share
}

// write rewrites a Dockerfile with the ids of the images instead of their names. Each stage begins with the project's label, so intermediate
// images carry it as well, and the engine's cache never returns what another project's build ran.
func (s *Service) write(ctx context.Context, r plan, projectID string, log io.Writer) (written, error) {
	d, err := parseDockerfile(r.text)
	if err != nil {
		return written{}, err
	}
	if d.syntax != "" {
		fmt.Fprintf(log, "Note: the frontend %q is not used: Parawork builds with the engine's classic builder.\n", clip(d.syntax, 200))
	}
	args := &arguments{escape: d.escape, given: r.args, have: map[string]string{}}
	var (
		out    written
		b      strings.Builder
		stages []string // their names, in lower case
		found  = map[string]string{}
	)
	if d.escape != '\\' {
		fmt.Fprintf(&b, "# escape=%c\n", d.escape)
	}
	find := func(name string) (string, error) {
		if id := found[name]; id != "" {
			return id, nil
		}
		img, err := s.judge(ctx, name, projectID, "", log)
		if err != nil {
			return "", err
		}
		for _, t := range img.Triggers {
			if err := checkTrigger(t); err != nil {
				return "", fmt.Errorf("the image %s cannot be built upon: %w", name, err)
			}
		}
		out.noCache = out.noCache || len(img.Triggers) > 0
		fmt.Fprintf(log, "%s is %s\n", name, img.ID)
		found[name] = img.ID
		return img.ID, nil
	}
	for _, in := range d.steps {
		if in.name == "FROM" && len(r.parts) > 0 && isTarget(r.target, stages) {
			break // the parts are installed at the end of the stage that becomes the image
		}
		switch {
		case in.name == "FROM":
			line, stage, err := from(in, args, stages, find)
			if err != nil {
				return out, err
			}
			stages = append(stages, stage)
			fmt.Fprintf(&b, "%s\nLABEL %s=%s\n", line, labelProject, projectID)
			continue
		case len(stages) == 0 && in.name != "ARG":
			return out, invalidDockerfile("%s stands before the first FROM.", in.name)
		case len(stages) == 0:
			if err := args.declare(in.rest); err != nil {
				return out, err
			}
		case in.name == "LABEL" && strings.Contains(in.rest, "parawork."):
			return out, invalidDockerfile("labels that begin with parawork. are reserved for Parawork.")
		case in.name == "COPY" || in.name == "ADD":
			for i, f := range in.flags {
				key, source, _ := strings.Cut(f[2:], "=")
				if !strings.EqualFold(key, "from") || isStage(source, stages) {
					continue
				}
				id, err := find(source)
				if err != nil {
					return out, err
				}
				in.flags[i] = "--from=" + id
			}
		}
		b.WriteString(in.String() + "\n")
	}
	if len(stages) == 0 {
		return out, invalidDockerfile("it has no FROM.")
	}
	text, _ := recipe.Added(r.parts)
	out.text = b.String() + text
	return out, nil
}

// isTarget says whether the last of these stages is the one to build, by its name or number.
func isTarget(target string, stages []string) bool {
	last := len(stages) - 1
	return last >= 0 && target != "" && (strings.EqualFold(target, stages[last]) || target == strconv.Itoa(last))
}

// isStage says whether a source of COPY --from is an earlier stage, by its name or number.
func isStage(source string, stages []string) bool {
	n, err := strconv.Atoi(source)
	return err == nil && n >= 0 && n < len(stages)-1 || slices.Contains(stages[:max(len(stages)-1, 0)], strings.ToLower(source))
}

// from writes a FROM, and returns the name of its stage, "" for none.
func from(in instruction, args *arguments, stages []string, find func(string) (string, error)) (line, stage string, err error) {
	words := strings.Fields(in.rest)
	switch {
	case len(words) == 3 && strings.EqualFold(words[1], "as") && stageName.MatchString(strings.ToLower(words[2])):
		stage = strings.ToLower(words[2])
	case len(words) != 1:
		return "", "", invalidDockerfile("FROM %s cannot be understood.", clip(in.rest, 200))
	}
	line = "FROM"
	for _, f := range in.flags {
		value, ok := strings.CutPrefix(f, "--platform=")
		if !ok {
			return "", "", invalidDockerfile("FROM has no flag %q.", clip(f, 100))
		}
		if value, err = args.expand(value); err != nil {
			return "", "", err
		}
		if strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789_/.") != "" {
			return "", "", invalidDockerfile("%q is no valid platform.", clip(value, 100))
		}
		if value != "" {
			line += " --platform=" + value
		}
	}
	name, err := args.expand(words[0])
	switch {
	case err != nil:
		return "", "", err
	case name == "":
		return "", "", invalidDockerfile("FROM %s has no value: give ARG one before the first FROM.", clip(words[0], 200))
	case slices.Contains(stages, strings.ToLower(name)):
		line += " " + strings.ToLower(name)
	case name == "scratch":
		line += " scratch"
	default:
		id, err := find(name)
		if err != nil {
			return "", "", err
		}
		line += " " + id
	}
	if stage != "" {
		line += " AS " + stage
	}
	return line, stage, nil
}
