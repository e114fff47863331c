package changes

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestParseStatus(t *testing.T) {
	t.Parallel()
	in := strings.Join([]string{
		"# branch.oid abc", "# branch.head (detached)",
		"1 .M N... 100644 100644 100644 aaa bbb a file with spaces",
		"2 R. N... 100644 100644 100644 aaa bbb R100 new\nname", "old",
		"u UU N... 100644 100644 100644 100644 aaa bbb ccc both",
		"? new/", "? caf\xe9", "! ignored", "",
	}, "\x00")
	got, more, err := parseStatus([]byte(in), 100)
	want := []dirty{
		{path: "a file with spaces", x: '.', y: 'M'}, {path: "new\nname", x: 'R', y: '.'}, {path: "both", x: 'U', y: 'U', unmerged: true},
		{path: "new", x: '?', y: '?', nested: true}, {path: "caf\xe9", x: '?', y: '?'},
	}
	if err != nil || more || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v %v %v", got, more, err)
	}
	if got, more, err := parseStatus([]byte(in), 2); len(got) != 2 || !more || err != nil {
		t.Fatalf("limited: %+v %v %v", got, more, err)
	}
	for _, bad := range []string{"x", "?", "? \x00", "1 .M N...\x00", "2 R. N... 1 1 1 a b R1 new\x00", "z z\x00", "? no end"} {
		if _, _, err := parseStatus([]byte(bad), 100); !errors.Is(err, errFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestParseDiff(t *testing.T) {
	t.Parallel()
	in := strings.Join([]string{
		":100644 100755 aaa 000 M", "mode", ":000000 100644 000 bbb A", ":colon", ":100644 100644 aaa bbb R087", "old", "new",
		"1\t2\tmode", "-\t-\t:colon", "3\t0\t", "old", "new", "",
	}, "\x00")
	raws, nums, err := parseDiff([]byte(in))
	if err != nil || len(raws) != 3 || raws[0].newMode != "100755" || raws[1].oldMode != "" || raws[1].path != ":colon" ||
		raws[2].score != 87 || raws[2].oldPath != "old" || raws[2].path != "new" {
		t.Fatalf("got %+v %v", raws, err)
	}
	want := map[string]counts{"mode": {1, 2, false}, ":colon": {binary: true}, "new": {3, 0, false}}
	if !reflect.DeepEqual(nums, want) {
		t.Fatalf("got %+v", nums)
	}
	for _, bad := range []string{":1 2 3 4 M\x00x\x00", ":100644 100644 a b M\x00", ":100644 100644 a b R100\x00old\x00", ":100644 100644 a b Q\x00x\x00",
		":10064x 100644 a b M\x00x\x00", "1\t2\x00", "-1\t2\tx\x00", "1\t2\t\x00old\x00", "99999999999999999999\t1\tx\x00"} {
		if _, _, err := parseDiff([]byte(bad)); !errors.Is(err, errFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte("1 .M N... 100644 100644 100644 aaa bbb a file\x00? new/\x00"))
	f.Add([]byte("2 R. N... 100644 100644 100644 aaa bbb R100 new\x00old\x00"))
	f.Add([]byte("u UU N... 100644 100644 100644 100644 aaa bbb ccc both\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		paths, _, err := parseStatus(b, 1000)
		for _, d := range paths {
			if err == nil && (d.path == "" || strings.IndexByte(d.path, 0) >= 0) {
				t.Fatalf("a path %q", d.path)
			}
		}
	})
}

func FuzzParseDiff(f *testing.F) {
	f.Add([]byte(":100644 100755 aaa 000 M\x00mode\x001\t2\tmode\x00"))
	f.Add([]byte(":100644 100644 aaa bbb R087\x00old\x00new\x003\t0\t\x00old\x00new\x00"))
	f.Add([]byte("-\t-\tbinary\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		raws, nums, err := parseDiff(b)
		if err != nil {
			return
		}
		for _, r := range raws {
			if r.path == "" || strings.IndexByte(r.path, 0) >= 0 || (r.status == 'R') && r.oldPath == "" {
				t.Fatalf("a record %+v", r)
			}
		}
		for path, c := range nums {
			if path == "" || c.additions < 0 || c.deletions < 0 {
				t.Fatalf("counts %q %+v", path, c)
			}
		}
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("plain")
	f.Add("a\n\"\\\x01")
	f.Fuzz(func(t *testing.T, s string) {
		if q := quote(s); strings.ContainsAny(q, "\n\r\x1b\x00") {
			t.Fatalf("%q is quoted as %q", s, q)
		}
	})
}
