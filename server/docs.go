package server

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"
	"go.yaml.in/yaml/v3"

	"github.com/parawork/parawork/server/api"
)

//go:embed docs
var docs embed.FS

// docsFiles are the files of the page at /api/docs, by what follows that in their address. openapi.json is made of openapi.yaml.
var docsFiles = map[string]string{"": "index.html", "/docs.js": "docs.js", "/docs.css": "docs.css", "/openapi.json": "openapi.json"}

// docsPolicy lets the page load its own files and nothing from elsewhere.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// specJSON is openapi.yaml as JSON, in the order it is written in.
var specJSON = sync.OnceValues(func() ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(api.Spec, &doc); err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	var out bytes.Buffer
	err := writeJSON(&out, &doc)
	return out.Bytes(), err
})

// writeJSON writes a YAML node as JSON and keeps the order of keys.
func writeJSON(out *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return writeJSON(out, n.Content[0])
	case yaml.MappingNode:
		out.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				out.WriteByte(',')
			}
			key, err := json.Marshal(n.Content[i].Value)
			if err != nil {
				return err
			}
			out.Write(key)
			out.WriteByte(':')
			if err := writeJSON(out, n.Content[i+1]); err != nil {
				return err
			}
		}
		out.WriteByte('}')
		return nil
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, c := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeJSON(out, c); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return fmt.Errorf("openapi.yaml line %d: %w", n.Line, err)
	}
	raw, err := json.Marshal(v)
	out.Write(raw)
	return err
}

// getSpec is GET /openapi.yaml.
func (s *Server) getSpec(c echo.Context) error {
	c.Response().Header().Set("Cache-Control", "no-cache")
	return c.Blob(http.StatusOK, "application/yaml; charset=utf-8", api.Spec)
}

// docsFile serves one file of the page at /api/docs.
func (s *Server) docsFile(name string) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", docsPolicy)
		if name == "openapi.json" {
			raw, err := specJSON()
			if err != nil {
				return err
			}
			return c.Blob(http.StatusOK, "application/json", raw)
		}
		raw, err := docs.ReadFile("docs/" + name)
		if err != nil {
			return fmt.Errorf("reading a file of the documentation: %w", err)
		}
		kind := "text/html; charset=utf-8"
		switch {
		case strings.HasSuffix(name, ".js"):
			kind = "text/javascript; charset=utf-8"
		case strings.HasSuffix(name, ".css"):
			kind = "text/css; charset=utf-8"
		}
		return c.Blob(http.StatusOK, kind, raw)
	}
}
