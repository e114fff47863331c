package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// node is a value of JSON with the keys of objects in the order they stand in the file.
type node struct {
	value any // nil, bool, json.Number, string, []node, object
}

type object struct {
	keys   []string
	values map[string]node
}

// parseTree reads one JSON value, strictly: no key twice, nothing after it.
func parseTree(text []byte) (node, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := readNode(d, 0)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			err = errors.New("there is data after the closing brace")
		}
	}
	if err == nil {
		return n, nil
	}
	at := d.InputOffset()
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = e.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends too early")
	}
	line, col := position(text, at)
	return node{}, fmt.Errorf("line %d, column %d: %w", line, col, err)
}

func position(text []byte, at int64) (line, col int) {
	before := text[:min(max(at, 0), int64(len(text)))]
	line = bytes.Count(before, []byte("\n")) + 1
	return line, len(before) - bytes.LastIndexByte(before, '\n') - 1
}

const maxDepth = 16

func readNode(d *json.Decoder, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, errors.New("too deeply nested")
	}
	t, err := d.Token()
	if err != nil {
		return node{}, err
	}
	switch t {
	case json.Delim('{'):
		o := object{values: map[string]node{}}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return node{}, err
			}
			key := k.(string)
			if _, twice := o.values[key]; twice {
				return node{}, fmt.Errorf("duplicate key %q", key)
			}
			v, err := readNode(d, depth+1)
			if err != nil {
				return node{}, err
			}
			o.keys, o.values[key] = append(o.keys, key), v
		}
		_, err := d.Token()
		return node{o}, err
	case json.Delim('['):
		list := []node{}
		for d.More() {
			v, err := readNode(d, depth+1)
			if err != nil {
				return node{}, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return node{list}, err
	}
	return node{t}, nil
}
