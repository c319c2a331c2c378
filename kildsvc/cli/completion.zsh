#compdef kildsvc
# zsh completion for kildsvc. `kildsvc completion zsh` prints it.
_kildsvc() {
    local line kind value about
    local -a found
    # The value of --option=value is completed by itself.
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    for line in "${(@f)$(${~words[1]} __complete $((CURRENT - 1)) "${(@Q)words}" 2>/dev/null)}"; do
        IFS=$'\t' read -r kind value about <<<"$line"
        case $kind in
        dir) _path_files -/ ;;
        file) _files ;;
        command) _command_names -e ;;
        plain) found+=("${value//:/\\:}${about:+:$about}") ;;
        esac
    done
    (( $#found )) && _describe kildsvc found
}
# Autoloaded from $fpath, or sourced.
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _kildsvc "$@"
else
    compdef _kildsvc kildsvc
fi
