package work

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/running"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/secretfiles"
)

func (h Files) ListPaths(ctx context.Context, req api.ListPathsRequestObject) (api.ListPathsResponseObject, error) {
	p, err := h.cfg.Files.Paths(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(api.PathList{Items: p.Items, Truncated: p.Truncated})
	if err != nil {
		return nil, fmt.Errorf("encoding a list of paths: %w", err)
	}
	return taggedAnswer{tag: tagOf(b), match: rest.Val(req.Params.IfNoneMatch), bytesAnswer: bytesAnswer{body: io.NopCloser(bytes.NewReader(b)), mediaType: "application/json", size: int64(len(b))}}, nil
}

// VisitListPathsResponse writes the answer of ListPaths.
func (a taggedAnswer) VisitListPathsResponse(w http.ResponseWriter) error { return a.visit(w) }

// Bounds of a search that a person waits for.
const (
	findMs      = 20_000
	findLimit   = 1000 // matching lines, unless the caller asks for less or more
	foundLength = 400  // bytes of a line that are shown
)

// finding searches while its answer is being written.
type finding struct {
	h       Files
	ctx     context.Context
	id      string
	req     guest.SearchRequest
	secrets workspaces.SecretFiles
}

func (h Files) FindInFiles(ctx context.Context, req api.FindInFilesRequestObject) (api.FindInFilesResponseObject, error) {
	p := req.Params
	pattern := p.Q
	if !rest.Val(p.Regex) {
		pattern = regexp.QuoteMeta(p.Q)
	}
	if rest.Val(p.Word) {
		pattern = `\b(?:` + pattern + `)\b`
	}
	secrets, err := h.cfg.Workspaces.SecretFiles.SecretFiles(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	limit := findLimit
	if p.Limit != nil {
		limit = *p.Limit
	}
	return finding{h, ctx, req.Id, guest.SearchRequest{Path: rest.Val(p.Path), Glob: rest.Val(p.Glob), Pattern: pattern, IgnoreCase: !rest.Val(p.Case), Lines: true,
		Hidden: true, Ignored: rest.Val(p.Ignored), Limit: limit, TimeoutMs: findMs}, secrets}, nil
}

// VisitFindInFilesResponse searches. Until its first event a failure is a proper error answer; after that it is an event.
func (f finding) VisitFindInFilesResponse(w http.ResponseWriter) error {
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	out := running.NewEvents(ctx, w, cancel)
	left, lines := 0, 0 // of secrets' files, which nobody is shown
	end, err := f.h.cfg.Files.Search(ctx, f.id, f.req, func(one guest.Found) error {
		one, shown := secretfiles.Found(f.secrets, one)
		if !shown {
			left, lines = left+1, lines+one.Matches
			return nil
		}
		return out.Send("file", foundFile(one))
	})
	out.End()
	switch {
	case err != nil && !out.Begun():
		return err
	case f.ctx.Err() != nil:
		return nil // the client disconnected
	case err != nil:
		p := rest.Translate(err)
		p.Body.RequestId = rest.CallOf(f.ctx).ID
		return out.Send("error", p.Body)
	}
	return out.Send("end", api.FindEnd{Files: max(end.Files-left, 0), Matches: max(end.Matches-lines, 0), Skipped: end.Skipped, Partial: api.FindEndPartial(end.Partial)})
}

func foundFile(f guest.Found) api.FoundFile {
	return api.FoundFile{Path: f.Path, Matches: f.Matches, Lines: rest.List(f.Lines, func(l guest.FoundLine) api.FoundLine {
		text, at, before, after := secretfiles.Around(l, foundLength)
		n := len(utf16.Encode([]rune(text[:min(at, len(text))])))
		if before {
			text, n = "…"+text, n+1
		}
		if after {
			text += "…"
		}
		return api.FoundLine{Line: l.Number, Text: text, At: n}
	})}
}

func (h Files) CreateFolder(ctx context.Context, req api.CreateFolderRequestObject) (api.CreateFolderResponseObject, error) {
	info, err := h.cfg.Files.MakeFolder(ctx, req.Id, req.Body.Path)
	if err != nil {
		return nil, err
	}
	return api.CreateFolder201JSONResponse(fileOf(info)), nil
}

// Bounds of an archive.
const (
	archiveFiles = 20_000
	archiveBytes = 2 << 30
	leftOutNamed = 1000
)

// archive is a folder that is packed while its answer is being written.
type archive struct {
	h       Files
	ctx     context.Context
	id      string
	folder  string // in wire form; "" = the root
	name    string
	files   []guest.Found
	secrets workspaces.SecretFiles
}

func (h Files) DownloadFolder(ctx context.Context, req api.DownloadFolderRequestObject) (api.DownloadFolderResponseObject, error) {
	a := archive{h: h, ctx: ctx, id: req.Id, folder: strings.TrimSuffix(rest.Val(req.Params.Path), "/")}
	if a.folder == "." {
		a.folder = ""
	}
	w := rest.CallOf(ctx).Workspace
	a.name = w.Key()
	if a.folder != "" {
		info, err := h.cfg.Files.Stat(ctx, req.Id, a.folder)
		if err != nil {
			return nil, err
		}
		if info.Type != "dir" {
			return nil, fault.New(fault.Conflict, "not_a_directory", "%q is not a folder.", a.folder)
		}
		a.folder = info.Path
		a.name = path.Base(info.Path)
	}
	var err error
	if a.secrets, err = h.cfg.Workspaces.SecretFiles.SecretFiles(ctx, req.Id); err != nil {
		return nil, err
	}
	size := int64(0)
	find := guest.SearchRequest{Path: a.folder, Hidden: true, Ignored: rest.Val(req.Params.Ignored), Limit: archiveFiles + 1, TimeoutMs: guest.MaxSearchMs}
	end, err := h.cfg.Files.Search(ctx, req.Id, find, func(f guest.Found) error {
		if size += f.Size; size > archiveBytes || len(a.files) == archiveFiles {
			return errTooLarge
		}
		a.files = append(a.files, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if end.Partial != "" {
		return nil, errTooLarge
	}
	slices.SortFunc(a.files, func(x, y guest.Found) int { return strings.Compare(x.Path, y.Path) })
	return a, nil
}

var errTooLarge = fault.New(fault.TooLarge, "folder_too_large", "The folder has more than %d files or %d GiB, which is more than one archive holds. Download folders in it.", archiveFiles, archiveBytes>>30)

// VisitDownloadFolderResponse writes the archive. The first file is read before the answer begins, so that what fails at once is still a proper
// error; what fails later cuts the connection: a short archive must not look like a whole one.
func (a archive) VisitDownloadFolderResponse(w http.ResponseWriter) error {
	out := &archiveWriter{Download: rest.Download{Writer: w, MIME: "application/zip"}, disposition: disposition(a.name + ".zip")}
	z := zip.NewWriter(out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	var left []string
	err := a.h.cfg.Files.ReadEach(a.ctx, a.id, a.files, func(f guest.Found, mode uint32, body io.Reader, why string) error {
		raw := guest.DecodePath(f.Path)
		if secretfiles.HasSum(a.secrets, path.Clean(raw), "") {
			why = "It is a secret's."
		}
		if why == "" {
			var err error
			if body, err = withoutValues(a.secrets, io.NopCloser(body), f.Size); errors.Is(err, secretfiles.ErrSecretValue) {
				why = "It contains a secret's value."
			} else if err != nil {
				return err
			}
		}
		if why != "" {
			left = append(left, f.Path+": "+why)
			return nil
		}
		name := strings.TrimPrefix(strings.TrimPrefix(raw, guest.DecodePath(a.folder)), "/")
		head := &zip.FileHeader{Name: archived(name), Method: zip.Deflate, Modified: time.UnixMilli(f.Mtime)}
		head.SetMode(fs.FileMode(0o644 | mode&0o111))
		to, err := z.CreateHeader(head)
		if err == nil {
			_, err = io.Copy(to, body)
		}
		return err
	})
	if err == nil && len(left) > 0 {
		err = leftOut(z, left)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil && out.Begun {
		panic(http.ErrAbortHandler)
	}
	return err
}

// archived is a file's name in an archive: a backslash would be a folder's on other systems.
func archived(name string) string { return strings.ReplaceAll(name, `\`, "_") }

func leftOut(z *zip.Writer, left []string) error {
	to, err := z.Create("LEFT-OUT.txt")
	if err != nil {
		return err
	}
	more := ""
	if len(left) > leftOutNamed {
		more = fmt.Sprintf("And %d more.\n", len(left)-leftOutNamed)
		left = left[:leftOutNamed]
	}
	_, err = io.WriteString(to, "These files are not in the archive:\n\n"+strings.Join(left, "\n")+"\n"+more)
	return err
}

// archiveWriter begins its answer with the first bytes.
type archiveWriter struct {
	rest.Download
	disposition string
}

func (w *archiveWriter) Write(p []byte) (int, error) {
	if !w.Begun {
		w.Begun = true
		h := w.Writer.Header()
		h.Set("Content-Type", w.MIME)
		h.Set("Content-Disposition", w.disposition)
		h.Set("X-Content-Type-Options", "nosniff")
		w.Writer.WriteHeader(http.StatusOK)
	}
	return w.Download.Write(p)
}
