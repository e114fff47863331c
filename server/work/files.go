package work

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func fileOf(f guest.FileInfo) api.File {
	return api.File{Path: f.Path, Name: f.Name, Type: api.FileType(f.Type), Mode: int64(f.Mode), Size: f.Size, Mtime: f.Mtime, Link: rest.Text(f.Link), Hash: f.Hash, Ignored: rest.NonZero(f.Ignored)}
}

// errSecretFile is what who reads a secret's file is answered.
var errSecretFile = secretfiles.ErrSecretFile

func (h Files) ReadFile(ctx context.Context, req api.ReadFileRequestObject) (api.ReadFileResponseObject, error) {
	name := path.Clean(guest.DecodePath(req.Params.Path))
	secrets, err := h.cfg.Workspaces.SecretFiles.SecretFiles(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	if secretfiles.HasSum(secrets, name, "") {
		return nil, errSecretFile
	}
	body, info, err := h.cfg.Files.Read(ctx, req.Id, req.Params.Path)
	if err != nil {
		return nil, err
	}
	if secretfiles.HasSum(secrets, name, info.Hash) {
		_ = body.Close()
		return nil, errSecretFile
	}
	if body, err = withoutValues(secrets, body, info.Size); err != nil {
		return nil, err
	}
	a := bytesAnswer{body: body, mediaType: "application/octet-stream", size: info.Size, header: map[string]string{
		"Content-Disposition": disposition(req.Params.Path),
	}}
	if info.Hash != "" {
		a.header["ETag"] = `"` + info.Hash + `"`
	}
	if info.Mtime > 0 {
		a.header["Last-Modified"] = time.UnixMilli(info.Mtime).UTC().Format(http.TimeFormat)
	}
	return a, nil
}

// editedMost is how large a file people change in the browser may be, in bytes. What is shown of a larger one is masked; one of these is not
// shown at all when a secret's value is in it: whoever wrote the masked file back would lose the value.
const editedMost = 8 << 20

// withoutValues refuses a file that holds a secret's value; of a large one the values are masked.
func withoutValues(secrets workspaces.SecretFiles, body io.ReadCloser, size int64) (io.ReadCloser, error) {
	if secrets.Values == nil {
		return body, nil
	}
	if size > editedMost {
		return readCloser{secretfiles.Reader(secrets, body), body}, nil
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, editedMost+1))
	if err != nil {
		return nil, err
	}
	if secretfiles.Value(secrets, content) {
		return nil, secretfiles.ErrSecretValue
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// disposition makes a browser save a file, under its own name if a header can carry it.
func disposition(wire string) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\\' || r == '"' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(path.Base(wire), "_"))
	if v := mime.FormatMediaType("attachment", map[string]string{"filename": name}); v != "" {
		return v
	}
	return "attachment"
}

func (h Files) WriteFile(ctx context.Context, req api.WriteFileRequestObject) (api.WriteFileResponseObject, error) {
	if err := h.keepFile(ctx, req.Id, req.Params.Path); err != nil {
		return nil, err
	}
	o := filesync.WriteOptions{IfMatch: rest.Val(req.Params.IfMatch), New: rest.Val(req.Params.IfNoneMatch) == "*"}
	info, err := h.cfg.Files.WriteWith(ctx, req.Id, req.Params.Path, req.Body, o)
	if err != nil {
		return nil, err
	}
	etag := fmt.Sprintf("%q", info.Hash)
	return api.WriteFile200JSONResponse{Body: fileOf(info), Headers: api.WriteFile200ResponseHeaders{ETag: &etag}}, nil
}

func (h Files) DeleteFile(ctx context.Context, req api.DeleteFileRequestObject) (api.DeleteFileResponseObject, error) {
	unsaved := rest.Val(req.Params.Unsaved)
	if !unsaved {
		ignored, err := h.cfg.Files.Unsaved(ctx, req.Id, req.Params.Path)
		if err != nil {
			return nil, err
		}
		if len(ignored.Paths) > 0 || ignored.More {
			return nil, notSaved("Git ignores files there", ignored.Paths)
		}
	}
	snap, err := h.keep(ctx, req.Id, req.Params.Path)
	if err != nil {
		return nil, err
	}
	if missing := missingBelow(snap, req.Params.Path); len(missing) > 0 && !unsaved {
		return nil, notSaved("Some files there are too large or cannot be read", missing)
	}
	if rest.Val(req.Params.Recursive) {
		err = h.cfg.Files.RemoveFolder(ctx, req.Id, req.Params.Path)
	} else {
		err = h.cfg.Files.RemoveIf(ctx, req.Id, req.Params.Path, rest.Val(req.Params.IfMatch))
	}
	if err != nil {
		return nil, err
	}
	return api.DeleteFile204Response{Headers: api.DeleteFile204ResponseHeaders{SnapshotId: rest.Text(snap.ID)}}, nil
}

// notSaved refuses to remove what could not be brought back.
func notSaved(why string, files []string) error {
	return fault.New(fault.Conflict, "not_in_snapshots", "%s, so no snapshot holds them: once deleted they cannot be restored.", why).With("files", files)
}

// missingBelow returns the files at or below a path that a snapshot does not hold, in wire form.
func missingBelow(snap snapshot.Snap, wire string) []string {
	at := guest.DecodePath(wire)
	var out []string
	for _, m := range snap.Missing {
		if m.Path == at || strings.HasPrefix(m.Path, at+"/") {
			out = append(out, guest.EncodePath(m.Path))
		}
	}
	return out
}

func (h Files) ListTree(ctx context.Context, req api.ListTreeRequestObject) (api.ListTreeResponseObject, error) {
	f, err := h.cfg.Files.Tree(ctx, req.Id, rest.Val(req.Params.Path))
	if err != nil {
		return nil, err
	}
	return api.ListTree200JSONResponse{Items: rest.List(f.Entries, fileOf), Truncated: f.Truncated, Copy: rest.NonZero(f.Copy)}, nil
}
