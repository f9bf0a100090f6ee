// Package volume keeps the data that outlives containers (API document 1, 2.8): named folders below one folder, or what
// their options make of them. It knows who uses a volume by the ids of containers and nothing else of these.
//
// A volume is the folder <name> with _data, the record volume.json and, until the container it was made for is known to
// have come into being, the file pending with that container's id. It appears and goes by one rename, so that a crash
// leaves either all of it or a name that begins with a dot, which Open sweeps away. Where containers mount
// a part of it only, _parts has the places of these mounts, in a folder for each container.
package volume
