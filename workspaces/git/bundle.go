package git

import (
	"archive/tar"
	"context"
	"fmt"
	"io/fs"
	"os"
)

// Folder writes everything below a folder: files, folders and links.
func (a *Archive) Folder(root *os.Root, name, prefix string) error {
	return fs.WalkDir(root.FS(), name, func(p string, d fs.DirEntry, err error) error {
		if a.Ctx.Err() != nil {
			return context.Cause(a.Ctx)
		}
		if err != nil {
			return fmt.Errorf("reading %q: %w", p, err)
		}
		if p == "." {
			return nil
		}
		if d.IsDir() {
			return a.Tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix + p + "/", Mode: 0o755, Format: tar.FormatPAX})
		}
		return a.File(root, p, prefix)
	})
}
