package find

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Block is a piece of a stream and its filter.
type Block struct {
	Start, End int64 // offsets in the stream
	From, To   int64 // when its first and its last byte came, ms UTC; 0: unknown
	Filter     Filter
}

// shardBlocks is the number of blocks in a shard.
const shardBlocks = 16

// ShardBytes is roughly how much of a stream a shard covers.
const ShardBytes = shardBlocks * BlockBytes

const shardMagic = "PWFIND1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode encodes blocks as a shard, which is stored as one file.
func Encode(blocks []Block) []byte {
	out := []byte(shardMagic)
	out = binary.AppendUvarint(out, uint64(len(blocks)))
	for _, b := range blocks {
		out = binary.AppendUvarint(out, uint64(b.Start))
		out = binary.AppendUvarint(out, uint64(b.End-b.Start))
		out = binary.AppendVarint(out, b.From)
		out = binary.AppendVarint(out, b.To-b.From)
		out = binary.AppendUvarint(out, uint64(len(b.Filter)))
		out = append(out, b.Filter...)
	}
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

var errShard = errors.New("damaged search file")

// Decode decodes a shard. The filters are parts of raw.
func Decode(raw []byte) ([]Block, error) {
	if len(raw) < len(shardMagic)+4 || string(raw[:len(shardMagic)]) != shardMagic {
		return nil, errShard
	}
	body := raw[:len(raw)-4]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(raw[len(body):]) {
		return nil, errShard
	}
	body = body[len(shardMagic):]
	bad := false
	count := func() int64 {
		u, k := binary.Uvarint(body)
		if k <= 0 || u > 1<<62 {
			bad = true
			return 0
		}
		body = body[k:]
		return int64(u)
	}
	num := func() int64 {
		v, k := binary.Varint(body)
		if k <= 0 {
			bad = true
			return 0
		}
		body = body[k:]
		return v
	}
	n := count()
	if bad || n > 4*shardBlocks {
		return nil, errShard
	}
	out := make([]Block, n)
	for i := range out {
		b := &out[i]
		b.Start = count()
		b.End = b.Start + count()
		b.From = num()
		b.To = b.From + num()
		size := count()
		if bad || size > int64(len(body)) || b.End-b.Start > MaxBlock {
			return nil, errShard
		}
		b.Filter = Filter(body[:size])
		if body = body[size:]; !b.Filter.valid() {
			return nil, errShard
		}
	}
	return out, nil
}
