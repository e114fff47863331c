package testkubernetes

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"runtime"
)

// writeArchive writes an image of one layer, as `docker save` would.
func writeArchive(w io.Writer, dir, name string, entry []string, write func(io.Writer) error) error {
	layer, err := os.CreateTemp(dir, "layer")
	if err != nil {
		return err
	}
	defer layer.Close()
	defer os.Remove(layer.Name())
	sum := sha256.New()
	if err := write(io.MultiWriter(layer, sum)); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": map[string]any{"Entrypoint": entry, "Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		text []byte
	}{{"manifest.json", manifest}, {"config.json", config}} {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))}); err != nil {
			return err
		}
		if _, err := t.Write(f.text); err != nil {
			return err
		}
	}
	size, err := layer.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = layer.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: "layer.tar", Mode: 0o644, Size: size}); err != nil {
		return err
	}
	if _, err := io.Copy(t, layer); err != nil {
		return err
	}
	return t.Close()
}
