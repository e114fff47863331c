package executortest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/id"
)

// Deliver is the usual Config.Deliver: it packs root on the host and unpacks it in the guest's worktree with the sandbox's own tar, as the
// guest's user.
func Deliver(ctx context.Context, c *client.Client, root string) error {
	archive, err := pack(root)
	if err != nil {
		return err
	}
	p, err := c.Start(ctx, guest.ProcessSpec{ID: id.New("tar"), Stdin: true, Argv: []string{"tar", "-x", "-p", "--no-same-owner", "-f", "-"}})
	if err != nil {
		return err
	}
	in, err := c.Input(ctx, p.ID)
	if err != nil {
		return err
	}
	defer in.Close()
	for seq := uint64(1); len(archive) > 0; seq++ {
		n := min(64<<10, len(archive))
		if err := in.Write(seq, archive[:n]); err != nil {
			return err
		}
		archive = archive[n:]
	}
	if err := c.CloseStdin(ctx, p.ID); err != nil {
		return err
	}
	end, err := c.Wait(ctx, p.ID)
	if err == nil && (end.ExitCode == nil || *end.ExitCode != 0) {
		err = fmt.Errorf("tar ended with %+v: %s", end, words(ctx, c, p.ID))
	}
	if err == nil {
		err = c.Remove(ctx, p.ID)
	}
	return err
}

// words returns what a process printed on its standard error.
func words(ctx context.Context, c *client.Client, id string) []byte {
	out, err := c.Output(ctx, id, guest.Stderr, 0)
	if err != nil {
		return []byte(err.Error())
	}
	defer out.Close()
	b, _ := io.ReadAll(io.LimitReader(out, 2000))
	return b
}

// pack makes an archive of a folder.
func pack(root string) ([]byte, error) {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, rerr := filepath.Rel(root, path)
		if err != nil || rerr != nil || name == "." {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		if h.Name = name; d.IsDir() {
			h.Name += "/"
		}
		if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = t.Write(b)
		return err
	})
	if err == nil {
		err = t.Close()
	}
	return out.Bytes(), err
}
