package agents

import (
	"bytes"
	"fmt"
	"path"

	"github.com/parawork/parawork/guest"
)

// claudePlugin is the folder of Parawork's plugin for Claude Code, below a home. It has an effect only in sessions that name it on their command
// line.
const claudePlugin = ".cache/parawork/claude-code"

// claudeStart is how long Claude waits until a language server can be asked, in milliseconds: a little longer than Parawork does.
const claudeStart = 90_000

// plugin writes the plugin with which Claude Code's own LSP tool asks the workspace's shared language servers, and returns its folder; ""
// without languages. The hooks report errors after edits, so the servers tell Claude none.
func (claudeCode) plugin(h Home, t *Tools) (string, error) {
	if t == nil || len(t.Languages) == 0 {
		return "", nil
	}
	servers := map[string]any{}
	for id, extensions := range t.Languages {
		servers[id] = map[string]any{"command": "/bin/sh", "args": []string{"-c", `exec "$` + guest.EnvGuest + `" tool lsp ` + id + ` --no-diagnostics`},
			"extensionToLanguage": extensions, "diagnostics": false, "startupTimeout": claudeStart}
	}
	manifest := []byte(jsonText(map[string]any{"name": toolServer, "version": "1.0.0", "description": "The language servers of the Parawork workspace.",
		"author": map[string]string{"name": "Parawork"}, "lspServers": servers}))
	name := path.Join(claudePlugin, ".claude-plugin", "plugin.json")
	if have, err := h.files.ReadFile(name); err != nil || !bytes.Equal(have, manifest) {
		if err := h.files.Mkdir(path.Dir(name)); err != nil {
			return "", fmt.Errorf("writing the plugin for Claude Code: %w", err)
		}
		if err := h.write(name, manifest); err != nil {
			return "", err
		}
	}
	return path.Join(h.Dir, claudePlugin), nil
}
