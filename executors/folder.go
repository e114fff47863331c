package executors

import (
	"context"
	"path"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// maxLinks is how many symbolic links a folder's path may go through.
const maxLinks = 10

var errCwdOutside = fault.New(fault.Invalid, "invalid_cwd", "cwd leads out of the workspace.")

// Folder turns a requested working folder into one relative to the root. It refuses a path that is no folder inside the root, also when a
// symbolic link leads out. It prevents mistakes, not attacks: a command itself may go wherever its sandbox allows.
func (p *Place) Folder(ctx context.Context, cwd string) (string, error) {
	for range maxLinks {
		rel, err := insideRoot(p.Hello.Root, cwd)
		if err != nil || rel == "" {
			return rel, err
		}
		info, err := p.Guest.Stat(ctx, rel)
		if fault.Is(err, fault.NotFound) {
			return "", fault.New(fault.Invalid, "invalid_cwd", "The folder %q does not exist.", rel)
		}
		if err != nil {
			return "", err
		}
		switch info.Type {
		case "dir":
			return rel, nil
		case "symlink":
			cwd = info.Link
			if !path.IsAbs(cwd) {
				cwd = path.Join(path.Dir(rel), cwd)
			}
		default:
			return "", fault.New(fault.Invalid, "invalid_cwd", "%q is not a folder.", rel)
		}
	}
	return "", fault.New(fault.Invalid, "invalid_cwd", "The folder %q goes through too many links.", cwd)
}

// insideRoot returns a folder relative to the root, judging the path alone; "" is the root itself.
func insideRoot(root, cwd string) (string, error) {
	if path.IsAbs(cwd) {
		root, cwd = path.Clean(root), path.Clean(cwd)
		if cwd != root && !strings.HasPrefix(cwd, strings.TrimSuffix(root, "/")+"/") {
			return "", errCwdOutside
		}
		cwd = strings.TrimPrefix(strings.TrimPrefix(cwd, root), "/")
	}
	switch cwd = path.Clean(cwd); {
	case cwd == ".":
		return "", nil
	case cwd == ".." || strings.HasPrefix(cwd, "../"):
		return "", errCwdOutside
	}
	return cwd, nil
}
