-- Items are looked up by their handles.
CREATE INDEX items_by_handle ON items (handle);
