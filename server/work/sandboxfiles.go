package work

import (
	"context"
	"net/http"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// Files of sandboxes without a repository are those of their workspaces. No snapshot is taken before one changes: a sandbox is thrown away
// with everything in it.

// used notes that the call uses its sandbox, and returns the sandbox's workspace.
func (h Files) used(ctx context.Context) (workspaceID string, err error) {
	sb, err := h.cfg.Sandboxes.Use(ctx, rest.CallOf(ctx).Sandbox.ID)
	return sb.WorkspaceID, err
}

func (h Files) ReadSandboxFile(ctx context.Context, req api.ReadSandboxFileRequestObject) (api.ReadSandboxFileResponseObject, error) {
	ws, err := h.used(ctx)
	if err != nil {
		return nil, err
	}
	a, err := h.ReadFile(ctx, api.ReadFileRequestObject{Id: ws, Params: api.ReadFileParams{Path: req.Params.Path}})
	if err != nil {
		return nil, err
	}
	return sandboxFile{a}, nil
}

type sandboxFile struct{ api.ReadFileResponseObject }

// VisitReadSandboxFileResponse writes the answer of ReadSandboxFile.
func (f sandboxFile) VisitReadSandboxFileResponse(w http.ResponseWriter) error {
	return f.VisitReadFileResponse(w)
}

func (h Files) WriteSandboxFile(ctx context.Context, req api.WriteSandboxFileRequestObject) (api.WriteSandboxFileResponseObject, error) {
	ws, err := h.used(ctx)
	if err != nil {
		return nil, err
	}
	info, err := h.cfg.Files.Write(ctx, ws, req.Params.Path, req.Body, "")
	if err != nil {
		return nil, err
	}
	return api.WriteSandboxFile200JSONResponse(fileOf(info)), nil
}

func (h Files) DeleteSandboxFile(ctx context.Context, req api.DeleteSandboxFileRequestObject) (api.DeleteSandboxFileResponseObject, error) {
	ws, err := h.used(ctx)
	if err != nil {
		return nil, err
	}
	remove := h.cfg.Files.Remove
	if rest.Val(req.Params.Recursive) {
		remove = h.cfg.Files.RemoveAll
	}
	if err := remove(ctx, ws, req.Params.Path); err != nil {
		return nil, err
	}
	return api.DeleteSandboxFile204Response{}, nil
}

func (h Files) StatSandboxFile(ctx context.Context, req api.StatSandboxFileRequestObject) (api.StatSandboxFileResponseObject, error) {
	ws, err := h.used(ctx)
	if err != nil {
		return nil, err
	}
	info, err := h.cfg.Files.Stat(ctx, ws, req.Params.Path)
	if err != nil {
		return nil, err
	}
	return api.StatSandboxFile200JSONResponse(fileOf(info)), nil
}

func (h Files) ListSandboxFiles(ctx context.Context, req api.ListSandboxFilesRequestObject) (api.ListSandboxFilesResponseObject, error) {
	ws, err := h.used(ctx)
	if err != nil {
		return nil, err
	}
	f, err := h.cfg.Files.Tree(ctx, ws, rest.Val(req.Params.Path))
	if err != nil {
		return nil, err
	}
	return api.ListSandboxFiles200JSONResponse{Items: rest.List(f.Entries, fileOf), Truncated: f.Truncated}, nil
}
