package permissions

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

const maxLinks = 40

// Links looks at files of a worktree; the guest's client does.
type Links interface {
	// Stat describes what is at a path in wire form, and does not follow links.
	Stat(ctx context.Context, path string) (guest.FileInfo, error)
}

// RealIn returns the Real of a worktree that is at root in its sandbox.
func RealIn(ctx context.Context, at Links, root string) Real {
	return func(p string) (given, real string, err error) {
		if given, err = below(root, guest.DecodePath(p)); err != nil {
			return "", "", err
		}
		real, err = follow(ctx, at, root, given)
		return given, real, err
	}
}

// below turns a path into one relative to the worktree.
func below(root, p string) (string, error) {
	if path.IsAbs(p) {
		root, p = path.Clean(root), path.Clean(p)
		rest, ok := strings.CutPrefix(p+"/", strings.TrimSuffix(root, "/")+"/")
		if !ok {
			return "", errOutside
		}
		p = rest
	}
	if p = path.Clean(p); !inside(p) {
		return "", errOutside
	}
	return p, nil
}

var errOutside = errors.New("the path leads out of the worktree")

// follow follows the links of a path, one part after the other. What does not exist has none.
func follow(ctx context.Context, at Links, root, p string) (string, error) {
	real, rest := ".", strings.Split(p, "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(real, rest[0])
		rest = rest[1:]
		if next == "." {
			real = next
			continue
		}
		if !inside(next) {
			return "", errOutside
		}
		info, err := at.Stat(ctx, guest.EncodePath(next))
		if fault.Is(err, fault.NotFound) {
			return path.Join(append([]string{next}, rest...)...), nil
		}
		if err != nil {
			return "", err
		}
		if info.Type != "symlink" {
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", errOutside
		}
		target := guest.DecodePath(info.Link)
		if path.IsAbs(target) {
			if target, err = below(root, target); err != nil {
				return "", err
			}
			real = "."
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, nil
}
