package imagesvc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/storage"
)

// v1Fields are the fields of an image's config that the record of its top layer has as well.
func v1Fields() []string {
	return []string{
		"architecture", "author", "comment", "config", "container", "container_config", "created", "docker_version", "os", "variant",
	}
}

// v1Record is what is looked at of a layer's record in an archive that comes in.
type v1Record struct {
	ID              string    `json:"id"`
	Parent          string    `json:"parent"`
	Created         time.Time `json:"created"`
	Author          string    `json:"author"`
	Comment         string    `json:"comment"`
	ContainerConfig struct {
		Cmd []string
	} `json:"container_config"`
}

// toHistory returns the step that made the layer.
func (r *v1Record) toHistory() storage.History {
	return storage.History{
		Created: r.Created, Author: r.Author, Comment: r.Comment, CreatedBy: strings.Join(r.ContainerConfig.Cmd, " "),
	}
}

// v1Layers makes the records of an image's layers, lowest first, and their ids. An id depends on the layer, those below it
// and the record, so images that share layers and their history share ids.
func v1Layers(config []byte, layers []storage.LayerInfo) (ids []string, records [][]byte, err error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(config, &doc); err != nil {
		return nil, nil, fmt.Errorf("decode image config: %w", err)
	}
	steps, err := layerSteps(doc["history"])
	if err != nil {
		return nil, nil, err
	}
	parent := ""
	for i, layer := range layers {
		record := map[string]any{}
		if i == len(layers)-1 {
			for _, field := range v1Fields() {
				if value, ok := doc[field]; ok {
					record[field] = value
				}
			}
		}
		if i < len(steps) {
			steps[i].fillRecord(record)
		}
		if _, ok := record["created"]; !ok {
			record["created"] = time.Unix(0, 0).UTC()
		}
		if _, ok := record["os"]; !ok && len(doc["os"]) > 0 {
			record["os"] = doc["os"]
		}
		id, raw, err := v1Seal(record, layer.ChainID, parent)
		if err != nil {
			return nil, nil, err
		}
		ids, records = append(ids, id), append(records, raw)
		parent = id
	}
	return ids, records, nil
}

// v1Step is a step of an image's making that left a layer.
type v1Step struct{ storage.History }

// fillRecord fills what a record does not have yet.
func (s v1Step) fillRecord(record map[string]any) {
	set := func(field string, value any, ok bool) {
		if _, there := record[field]; !there && ok {
			record[field] = value
		}
	}
	set("created", s.Created, !s.Created.IsZero())
	set("author", s.Author, s.Author != "")
	set("comment", s.Comment, s.Comment != "")
	set("container_config", map[string]any{"Cmd": []string{s.CreatedBy}}, s.CreatedBy != "")
}

// layerSteps returns the steps that left a layer, oldest first.
func layerSteps(raw json.RawMessage) ([]v1Step, error) {
	var history []storage.History
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &history); err != nil {
			return nil, fmt.Errorf("decode image history: %w", err)
		}
	}
	var steps []v1Step
	for _, step := range history {
		if !step.EmptyLayer {
			steps = append(steps, v1Step{step})
		}
	}
	return steps, nil
}

// v1Seal gives a record its id: the digest of itself, its layer and its parent.
func v1Seal(record map[string]any, chainID digest.Digest, parent string) (id string, raw []byte, err error) {
	sealed := maps.Clone(record)
	sealed["layer_id"] = chainID
	if parent != "" {
		sealed["parent"] = "sha256:" + parent
		record["parent"] = parent
	}
	if raw, err = json.Marshal(sealed); err != nil {
		return "", nil, fmt.Errorf("encode layer record: %w", err)
	}
	id = digest.FromBytes(raw).Encoded()
	record["id"] = id
	if raw, err = json.Marshal(record); err != nil {
		return "", nil, fmt.Errorf("encode layer record: %w", err)
	}
	return id, raw, nil
}

// v1Config makes the config of an image from the records of its layers, lowest first.
func v1Config(records [][]byte, diffIDs []digest.Digest) ([]byte, error) {
	top := records[len(records)-1]
	doc := map[string]json.RawMessage{}
	if err := json.Unmarshal(top, &doc); err != nil || doc == nil {
		return nil, fault.Invalid("the record of a layer cannot be read: %v", err)
	}
	for _, field := range []string{"id", "parent", "parent_id", "layer_id", "Size", "throwaway", "history", "rootfs"} {
		delete(doc, field)
	}
	history := make([]storage.History, 0, len(records))
	for _, raw := range records {
		var record v1Record
		if err := json.Unmarshal(raw, &record); err != nil {
			return nil, fault.Invalid("the record of a layer cannot be read: %w", err)
		}
		history = append(history, record.toHistory())
	}
	var err error
	if doc["history"], err = json.Marshal(history); err != nil {
		return nil, fmt.Errorf("encode image history: %w", err)
	}
	doc["rootfs"], err = json.Marshal(map[string]any{"type": "layers", "diff_ids": diffIDs})
	if err != nil {
		return nil, fmt.Errorf("encode image layers: %w", err)
	}
	config, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("encode image config: %w", err)
	}
	return bytes.TrimSpace(config), nil
}
