// Package archive packs the user's own files into tar streams and unpacks such streams beside them. What it unpacks
// comes from containers and is not trusted: it works below a descriptor of the destination (os.Root) and follows no
// link out of it. It knows neither containers nor the API.
package archive
