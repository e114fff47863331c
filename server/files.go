package server

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/server/api"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/workspaces"
)

func fileOf(f guest.FileInfo) api.File {
	return api.File{Path: f.Path, Name: f.Name, Type: api.FileType(f.Type), Mode: int64(f.Mode), Size: f.Size, Mtime: f.Mtime, Link: text(f.Link), Hash: f.Hash}
}

// errSecretFile is what who reads a secret's file is answered.
var errSecretFile = workspaces.ErrSecretFile

func (h handlers) ReadFile(ctx context.Context, req api.ReadFileRequestObject) (api.ReadFileResponseObject, error) {
	name := path.Clean(guest.DecodePath(req.Params.Path))
	if h.cfg.Sessions.HoldsSecret(req.Id, name, "") {
		return nil, errSecretFile
	}
	body, info, err := h.cfg.Files.Read(ctx, req.Id, req.Params.Path)
	if err != nil {
		return nil, err
	}
	if h.cfg.Sessions.HoldsSecret(req.Id, name, info.Hash) {
		_ = body.Close()
		return nil, errSecretFile
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

// disposition makes a browser save a file, under its own name when that is one it can be told.
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

func (h handlers) WriteFile(ctx context.Context, req api.WriteFileRequestObject) (api.WriteFileResponseObject, error) {
	if err := h.keepFile(ctx, req.Id, req.Params.Path); err != nil {
		return nil, err
	}
	o := filesync.WriteOptions{IfMatch: val(req.Params.IfMatch), New: val(req.Params.IfNoneMatch) == "*"}
	info, err := h.cfg.Files.WriteWith(ctx, req.Id, req.Params.Path, req.Body, o)
	if err != nil {
		return nil, err
	}
	etag := fmt.Sprintf("%q", info.Hash)
	return api.WriteFile200JSONResponse{Body: fileOf(info), Headers: api.WriteFile200ResponseHeaders{ETag: &etag}}, nil
}

func (h handlers) DeleteFile(ctx context.Context, req api.DeleteFileRequestObject) (api.DeleteFileResponseObject, error) {
	if err := h.keepFile(ctx, req.Id, req.Params.Path); err != nil {
		return nil, err
	}
	if err := h.cfg.Files.RemoveIf(ctx, req.Id, req.Params.Path, val(req.Params.IfMatch)); err != nil {
		return nil, err
	}
	return api.DeleteFile204Response{}, nil
}

func (h handlers) ListTree(ctx context.Context, req api.ListTreeRequestObject) (api.ListTreeResponseObject, error) {
	f, err := h.cfg.Files.Tree(ctx, req.Id, val(req.Params.Path))
	if err != nil {
		return nil, err
	}
	return api.ListTree200JSONResponse{Items: list(f.Entries, fileOf), Truncated: f.Truncated}, nil
}
