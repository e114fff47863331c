package images

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

const (
	maxRecipe  = 1 << 20   // bytes of a Dockerfile or devcontainer.json
	maxContext = 512 << 20 // bytes of a build context
	maxFiles   = 200_000
	// recipeName is the name of the Dockerfile in the context: in the repository it may lie outside of the context.
	recipeName = ".parawork.Dockerfile"
	// maxCandidates limits how many files are offered.
	maxCandidates = 50
)

// candidates returns the files of a commit an image can be built from: those at the usual paths first.
func (s *Service) candidates(ctx context.Context, projectID, commit string) ([]Candidate, error) {
	files, err := s.cfg.Repositories.CommitFiles(ctx, projectID, commit, "")
	if err != nil {
		return nil, err
	}
	var out []Candidate
	for _, f := range files {
		if f.Link() || f.Module() || checkSource(f.Path) != nil || strings.Count(f.Path, "/") > 3 {
			continue
		}
		out = append(out, Candidate{Path: f.Path, Kind: kindOf(f.Path)})
	}
	slices.SortStableFunc(out, func(a, b Candidate) int { return strings.Count(a.Path, "/") - strings.Count(b.Path, "/") })
	return out[:min(len(out), maxCandidates)], nil
}

// make builds, and returns the image's tag.
func (s *Service) make(ctx context.Context, b Build, log io.Writer) (tag string, err error) {
	fmt.Fprintf(log, "Building from %s at commit %s\n", b.Source, b.Commit[:min(len(b.Commit), 12)])
	r, err := s.plan(ctx, b)
	if err != nil {
		return "", err
	}
	choice, err := s.cfg.Store.ImageChoice(ctx, b.ProjectID)
	if err != nil {
		return "", err
	}
	if r.parts = choice.Parts; len(r.parts) > 0 {
		r.notes = append(r.notes, "With the parts "+strings.Join(r.parts, ", ")+".")
	}
	for _, n := range r.notes {
		fmt.Fprintln(log, "Note: "+n)
	}
	made, err := s.write(ctx, r, b.ProjectID, log)
	if err != nil {
		return "", err
	}
	r.text = made.text
	files, err := s.contextFiles(ctx, b, r)
	if err != nil {
		return "", err
	}
	tag = repository(b.ProjectID) + ":" + b.Commit[:min(len(b.Commit), 12)] + "-" + strings.ToLower(b.ID[max(0, len(b.ID)-8):])
	pr, pw := io.Pipe()
	sent := make(chan struct{})
	go func() { // ends when the Builder has read, or has closed, its end
		defer close(sent)
		pw.CloseWithError(s.writeContext(ctx, pw, b.ProjectID, r, files))
	}()
	err = s.cfg.Builder.Build(ctx, Order{Tag: tag, Dockerfile: recipeName, Target: r.target, Args: r.args, ProjectID: b.ProjectID, TeamID: b.TeamID, BuildID: b.ID, NoCache: made.noCache, Context: pr}, log)
	_ = pr.CloseWithError(context.Canceled)
	<-sent
	return tag, err
}

// plan reads how to build the image. Its text is the Dockerfile's.
func (s *Service) plan(ctx context.Context, b Build) (plan, error) {
	raw, err := s.read(ctx, b, b.Source)
	if err != nil {
		return plan{}, err
	}
	if kindOf(b.Source) == Dockerfile {
		// As with `docker build FOLDER`: the context is the folder the Dockerfile lies in.
		dir := path.Dir(b.Source)
		if dir == "." {
			dir = ""
		}
		return plan{dockerfile: b.Source, text: string(raw), context: dir}, nil
	}
	r, err := parseDevcontainer(b.Source, raw)
	if err == nil && r.dockerfile != "" {
		if raw, err = s.read(ctx, b, r.dockerfile); err == nil {
			r.text = string(raw)
		}
	}
	return r, err
}

// read reads one small file of the build's commit.
func (s *Service) read(ctx context.Context, b Build, name string) ([]byte, error) {
	files, err := s.cfg.Repositories.CommitFiles(ctx, b.ProjectID, b.Commit, name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(files, func(f hostgit.TreeFile) bool { return f.Path == name && !f.Link() && !f.Module() })
	if i < 0 {
		return nil, fault.New(fault.NotFound, "image_source_missing", "The commit has no file %q. Commit it to the project's default branch first.", name)
	}
	if files[i].Size > maxRecipe {
		return nil, fault.New(fault.TooLarge, "image_source_too_large", "%s is larger than %d bytes.", name, maxRecipe)
	}
	var out []byte
	err = s.cfg.Repositories.CommitBlobs(ctx, b.ProjectID, files[i:i+1], func(_ hostgit.TreeFile, r io.Reader) error {
		out, err = io.ReadAll(r)
		return err
	})
	return out, err
}

// contextFiles returns the files of the build context.
func (s *Service) contextFiles(ctx context.Context, b Build, r plan) ([]hostgit.TreeFile, error) {
	if r.dockerfile == "" {
		return nil, nil // the image as it is
	}
	files, err := s.cfg.Repositories.CommitFiles(ctx, b.ProjectID, b.Commit, r.context)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, hostgit.TreeFile.Module)
	var size int64
	for _, f := range files {
		size += f.Size
	}
	if size > maxContext || len(files) > maxFiles {
		return nil, fault.New(fault.TooLarge, "image_context_too_large",
			"The folder the image is built from has %d files of %d MiB; %d files and %d MiB are allowed. Put the Dockerfile into a folder of its own with what it needs.",
			len(files), size>>20, maxFiles, maxContext>>20)
	}
	return files, nil
}

// writeContext writes the build context as a tar archive.
func (s *Service) writeContext(ctx context.Context, w io.Writer, projectID string, r plan, files []hostgit.TreeFile) error {
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: recipeName, Mode: 0o644, Size: int64(len(r.text))}); err != nil {
		return err
	}
	if _, err := io.WriteString(t, r.text); err != nil {
		return err
	}
	_, added := recipe.Added(r.parts)
	for name, content := range added {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		if _, err := io.WriteString(t, content); err != nil {
			return err
		}
	}
	if len(files) > 0 {
		err := s.cfg.Repositories.CommitBlobs(ctx, projectID, files, func(f hostgit.TreeFile, body io.Reader) error {
			name := f.Path
			if r.context != "" {
				name = strings.TrimPrefix(name, r.context+"/")
			}
			if _, ours := added[name]; ours || name == recipeName {
				return nil
			}
			if f.Link() {
				target, err := io.ReadAll(io.LimitReader(body, 4096))
				if err != nil {
					return err
				}
				return t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: string(target), Mode: 0o777})
			}
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.Mode & 0o777), Size: f.Size}); err != nil {
				return err
			}
			_, err := io.Copy(t, body)
			return err
		})
		if err != nil {
			return err
		}
	}
	return t.Close()
}
